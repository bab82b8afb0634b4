// SPDX-License-Identifier: MIT
/// Network: a model with its loss, its parameters and its activation memory, on one device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/archive.h"
#include "core/parameter.h"
#include "core/registry.h"
#include "layers/layer.h"
#include "layers/loss.h"

namespace dragonn::layers {

/// One batch for a network, in host memory. Inputs, and labels of one class each, may be on the network's device
/// instead.
struct NetworkBatch {
  View<const float> inputs;               ///< [size, sample shape], copied; tokens are whole numbers, exact below 2^24
  Targets targets;                        ///< of the loss's target kind
  std::size_t size = 0;                   ///< number of samples
  View<const std::int32_t> lengths = {};  ///< [size], valid time steps of each sample; empty: all are. Host memory
  std::int64_t steps = 0;                 ///< first extent of the samples, if it is not that of sample_shape()
};

struct LayerSummary {
  std::string name;
  std::string kind;  ///< "convolution 3x3/2"
  Shape output;      ///< with batch 1
  std::size_t parameters = 0;
  std::size_t padding = 0;    ///< those of the parameters that are ParameterSpec::padding
  double forward_flops = 0;   ///< of matrix products per sample, a multiply-add is 2
  double backward_flops = 0;  ///< likewise
  std::size_t inputs = 0;     ///< the elements that it reads per sample
};

/// A tensor of a model as other programs name it: a parameter, or running moments of a batch norm.
struct ModelTensor {
  std::string name;  ///< "conv1.weight", "conv1.bn.running_mean"
  Shape shape;       ///< convolution weights [height, width, inputs, outputs], linear weights [outputs, inputs];
                     ///< without padding
  View<float> values;
  /// The extents, channels last, of the images of which the last axis is a flattening; rank 0 if it is none.
  Shape image = {};
};

/// A call by backward as soon as a parameter's gradient is final: every parameter once, last layer first.
using GradientReady = std::function<void(ParameterId)>;

/// The memory in bytes that a network needs for a batch, for the preflight and `--dry-run`.
struct MemoryEstimate {
  std::size_t parameters = 0;
  std::size_t gradients = 0;
  std::size_t activations = 0;  ///< forward results that backward needs
  std::size_t workspace = 0;    ///< scratchpads, blocked weights, activation gradients
};

class LayerGraph;         // layers/graph.h
struct LayerDescription;  // layers/layer.h

/// Trains one batch at a time: forward, then backward. Batches of the same size reuse all memory; another size (the
/// last batch, evaluation) or another number of time steps makes another plan, which stays. Gradients are means over
/// the batch (over its labelled steps, if each step has a target) and overwrite the arena's. If the loss runs in
/// chunks, forward of Mode::kTrain already writes those of the last layer.
///
/// A network with state carries it from one forward to the next of the same mode: row i of a batch continues row i of
/// the one before. Training and evaluation have a state each. No gradient flows through it.
class Network {
 public:
  /// Takes a complete graph. Plans are made at the first batch of each size; no memory is allocated here. @throws
  /// ConfigError if the device does not have the precision, or the graph nothing to compute again (check_recompute).
  Network(std::unique_ptr<LayerGraph> layers, double label_smoothing, Device device = {},
          const Execution& execution = {});
  ~Network();
  Network(Network&&) noexcept;
  Network& operator=(Network&&) noexcept;

  /// The layers, for those who run them in another way. They stay where they are as long as the network.
  const LayerGraph& graph() const;
  const Shape& sample_shape() const;
  /// Returns the number of classes, without outputs that only pad (ParameterSpec::padding).
  int classes() const;
  TargetKind target_kind() const;
  std::vector<LayerSummary> summary() const;
  /// Returns the exact memory of a training step. Evaluation at the same batch size needs less. Makes (and drops) the
  /// plans of that batch.
  MemoryEstimate memory(std::size_t batch) const;
  /// Returns the bytes of activations and workspace for evaluating batches of this size. They share one memory with
  /// those of training.
  std::size_t evaluation_bytes(std::size_t batch) const;
  /// Returns the operations of the matrix products of forward and backward, per sample: LayerGraph::training_flops().
  double training_flops() const;

  /// Allocates the arena and draws initial values: the same on every rank for one seed.
  void initialize(std::uint64_t seed);
  ParameterArena& arena();
  const ParameterArena& arena() const;
  /// The batch-norm running means and variances, contiguous. They are state of each rank, averaged over ranks before
  /// evaluation.
  View<float> statistics();
  /// Returns all parameters, in the order of declaration, and then the running moments. A tied parameter is there once.
  /// After initialize() only. The views are valid as long as the network.
  std::vector<ModelTensor> tensors();
  /// Lets the next forward of this mode start from a state of zeros, with a batch of any size.
  void reset_state(Mode mode);
  /// The state that the next forward of this mode starts with, for checkpoints; empty after reset_state().
  View<float> state(Mode mode);
  /// Returns whether some layer carries state from batch to batch.
  bool carries_state() const;
  /// Sets that state, for a batch of this size. @throws ShapeError if the sizes do not fit.
  void set_state(Mode mode, std::size_t batch, View<const float> state);

  /// Starts from the state that other workers left, whose number was another one: the statistics from their mean, or
  /// from their initial values; no state for training. @throws ConfigError that names the layer whose rule refuses
  /// that.
  void resize(View<const float> mean_statistics);

  /// Runs a batch up to the loss. `step` and `rank` key the dropout streams. Label smoothing applies to training only.
  /// @throws DataError for a label, token or length out of range; Error if the batch does not have the size of the
  /// state.
  LossResult forward(const NetworkBatch& batch, Mode mode, std::uint64_t step = 0, int rank = 0);
  /// Runs a batch with one label per sample.
  LossResult forward(View<const float> inputs, View<const std::int32_t> labels, std::size_t batch, Mode mode,
                     std::uint64_t step = 0, int rank = 0) {
    return forward({inputs, {labels, {}}, batch}, mode, step, rank);
  }
  /// Runs backward after a forward in Mode::kTrain. `ready` may be empty.
  void backward(const GradientReady& ready = {});
  /// Describes the layers of the last forward's plan that describe themselves: on a GPU its convolutions.
  std::vector<LayerDescription> describe() const;
  /// Returns why passes that could be recorded and replayed on a GPU (kernels/repeated_work.h) are not; else empty.
  std::string repetition_obstacle() const;
  /// The output of the last forward: logits, [batch, classes] or [batch, steps, classes]; valid until the next call. If
  /// the loss runs in chunks (LayerGraph::set_loss), this runs the last layer again, with the parameters as they are
  /// now, and takes memory for the logits of all rows, which stays.
  View<const float> logits() const;
  /// The shape of the logits, and the valid time steps of their samples (empty: all are).
  Shape logits_shape() const;
  std::span<const std::int32_t> logits_lengths() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The data that a model is built for.
struct ModelContext {
  Shape sample_shape;  ///< [height, width, channels], [features], [steps] of tokens, or [steps, features]
  int classes = 0;     ///< for tokens the vocabulary, for transcripts the alphabet with the blank
};

/// The kind of a model's samples.
enum class InputKind {
  kImages,    ///< [height, width, channels]
  kFeatures,  ///< [features]
  kTokens,    ///< [steps] of whole numbers in [0, classes)
  kFrames,    ///< [steps, features]; steps and lengths differ from batch to batch
};

/// The name of a layer's tensors here, and in files of another program.
struct LayerName {
  std::string own;          ///< "layer#.attention.qkv", where '#' is any number; empty: what has no place here
  std::string other;        ///< "transformer.h.#.attn.c_attn"
  bool transposed = false;  ///< matrices are [inputs, outputs] there
};

/// The form of a model's weights in files of another program.
struct WeightsForm {
  std::vector<LayerName> layers;
  std::string prefix;  ///< of names in `layers`, which files may leave out: "transformer."
  /// A layer here and the one whose weight it shares if it has none: a file may have a copy of that weight.
  std::string tied, owner;
  /// Returns the text of the file `config.json` with which the other program builds the model.
  std::function<std::string(const Settings&, const ModelContext&)> config;
};

struct ModelEntry : RegistryEntry {
  static constexpr const char* kKind = "model";
  /// Builds the graph. @throws ConfigError if the model does not fit the data (names the shapes).
  std::function<std::unique_ptr<LayerGraph>(const Settings&, const ModelContext&)> make;
  InputKind inputs = InputKind::kImages;
  std::optional<WeightsForm> weights = {};  ///< the form in which its weights leave and enter; without: our own names
};

}  // namespace dragonn::layers
