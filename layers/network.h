// SPDX-License-Identifier: MIT
/// Network: a model with its loss, its parameters and its activation memory, on one device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/archive.h"
#include "core/parameter.h"
#include "core/registry.h"
#include "layers/mode.h"

namespace dragonn::layers {

/// Sums over the samples of one batch.
struct LossResult {
  double loss_sum = 0;      ///< of the samples' losses
  std::size_t correct = 0;  ///< samples whose largest logit is their label's
  std::size_t count = 0;
};

struct LayerSummary {
  std::string name;
  std::string kind;  ///< "convolution 3x3/2"
  Shape output;      ///< with batch 1
  std::size_t parameters = 0;
  double forward_flops = 0;  ///< per sample, a multiply-add is 2
};

/// Called by backward as soon as a parameter's gradient is final: every parameter once, last layer first.
using GradientReady = std::function<void(ParameterId)>;

/// What a network needs in memory, in bytes, for a batch: for the preflight and `--dry-run`.
struct MemoryEstimate {
  std::size_t parameters = 0;
  std::size_t gradients = 0;
  std::size_t activations = 0;  ///< forward results that backward needs
  std::size_t workspace = 0;    ///< scratchpads, blocked weights, activation gradients
};

class LayerGraph;  // layers/graph.h

/// Trains one batch at a time: forward, then backward. Batches of the same size reuse all memory; another size (the
/// last batch, evaluation) makes a second plan. Gradients are means over the batch and overwrite the arena's.
class Network {
 public:
  /// `layers` is complete; plans are made at the first batch of each size. No memory is allocated here.
  Network(std::unique_ptr<LayerGraph> layers, double label_smoothing, Device device = {});
  ~Network();
  Network(Network&&) noexcept;
  Network& operator=(Network&&) noexcept;

  const Shape& sample_shape() const;
  int classes() const;
  std::vector<LayerSummary> summary() const;
  /// Of a training step, exact. Evaluation at the same batch size needs less. Makes (and drops) the plans of that
  /// batch.
  MemoryEstimate memory(std::size_t batch) const;
  /// Operations of the matrix products of forward and backward, per sample: LayerGraph::training_flops().
  double training_flops() const;

  /// Allocates the arena and draws initial values: the same on every rank for one seed.
  void initialize(std::uint64_t seed);
  ParameterArena& arena();
  const ParameterArena& arena() const;
  /// Batch-norm running means and variances, contiguous: state of each rank, averaged over ranks before evaluation.
  View<float> statistics();

  /// Runs `batch` samples ([batch, sample_shape] floats, copied) to the loss. `step` and `rank` key the dropout
  /// streams. Label smoothing applies to training only. @throws DataError for a label that is not in [0, classes).
  LossResult forward(View<const float> inputs, View<const std::int32_t> labels, std::size_t batch, Mode mode,
                     std::uint64_t step = 0, int rank = 0);
  /// After a forward in Mode::kTrain. `ready` may be empty.
  void backward(const GradientReady& ready = {});
  /// Logits of the last forward, [batch, classes].
  View<const float> logits() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What a model is built for.
struct ModelContext {
  Shape sample_shape;  ///< [height, width, channels], or [features]
  int classes = 0;
};

struct ModelEntry : RegistryEntry {
  static constexpr const char* kKind = "model";
  /// @throws ConfigError if the model does not fit the data (names the shapes).
  std::function<std::unique_ptr<LayerGraph>(const Settings&, const ModelContext&)> make;
};

}  // namespace dragonn::layers
