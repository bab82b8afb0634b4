// SPDX-License-Identifier: MIT
/// Batch: the samples of one rank in one step. BatchSource: fills batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/targets.h"
#include "core/tensor.h"

namespace dragonn::data {

/// Samples in host memory. Their size may differ from batch to batch.
struct Batch {
  Tensor inputs;                      ///< memory for the largest batch; input_view() is the used part
  std::vector<std::int32_t> labels;   ///< labels of all samples, one after the other
  std::vector<std::int32_t> offsets;  ///< [count + 1] if samples have lists of labels (core/targets.h), else empty
  std::vector<std::int32_t> lengths;  ///< [count], valid time steps of each sample; empty: all are
  std::size_t sample_size = 0;        ///< floats of a sample in this batch
  std::int64_t steps = 0;             ///< time steps of this batch if they differ from batch to batch, else 0
  std::size_t count = 0;              ///< number of samples
  bool begins = true;                 ///< the samples do not continue those of the step before
  std::size_t first = 0;              ///< number of the first sample, in evaluation of questions (Dataset::questions)
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;  ///< within the epoch

  /// Returns the inputs: [count, sample_size].
  View<const float> input_view() const { return inputs.view().subview(0, count * sample_size); }
  View<const std::int32_t> label_view() const { return view(labels); }
  View<const std::int32_t> length_view() const { return view(lengths); }
  Targets targets() const { return {label_view(), view(offsets)}; }

 private:
  static View<const std::int32_t> view(const std::vector<std::int32_t>& values) {
    return View<const std::int32_t>(std::span<const std::int32_t>(values));
  }
};

/// The batches of one rank, in a fixed order. One thread uses it.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// Returns the number of steps. In training it is equal on all ranks; in evaluation it is that of this rank's shard,
  /// perhaps 0.
  virtual std::size_t steps_per_epoch() const = 0;
  /// Makes a batch with memory for any step: fill() does not allocate, except for lists of labels longer than all
  /// before. @param inputs the place of Batch::inputs, in host memory.
  virtual Batch make_batch(const MemoryPlace& inputs) const = 0;
  /// Fills all but the batch's own epoch and step. Depends on nothing but `epoch` and `step` < steps_per_epoch().
  virtual void fill(std::uint64_t epoch, std::uint64_t step, Batch& batch) = 0;
};

}  // namespace dragonn::data
