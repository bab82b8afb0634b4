// SPDX-License-Identifier: MIT
/// Batch: the samples of one rank in one step. BatchSource: fills batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/error.h"
#include "core/targets.h"

namespace dragonn::data {

/// Samples in host memory. Their size may differ from batch to batch.
struct Batch {
  Buffer<float> inputs;               ///< memory for the largest batch; input_view() is the used part
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

/// A part of an epoch: steps that took equally many samples, over all ranks. For running text a sample is a row.
struct EpochPart {
  std::uint64_t samples_per_step = 0;
  std::uint64_t steps = 0;
  bool operator==(const EpochPart&) const = default;
};

/// Returns the samples that these parts of one epoch took.
inline std::uint64_t samples_in(std::span<const EpochPart> parts) {
  std::uint64_t samples = 0;
  for (const EpochPart& part : parts) samples += part.samples_per_step * part.steps;
  return samples;
}

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
  /// Fills all but the batch's own epoch and step. Depends on nothing but `epoch` and `step` < steps_per_epoch(), and
  /// on the call of continue_epoch() for that epoch.
  virtual void fill(std::uint64_t epoch, std::uint64_t step, Batch& batch) = 0;
  /// Deals the samples that earlier parts of `epoch` left out to this source's ranks, each at most once. As many steps
  /// as they fill by the rule of Remainder become the last steps of the epoch. Other epochs stay as they are.
  /// @param earlier parts in their order, of runs with the same data and seed.  @return the number of these steps,
  /// perhaps 0. @throws ConfigError if the data set has no rule for that.
  virtual std::size_t continue_epoch([[maybe_unused]] std::uint64_t epoch,
                                     [[maybe_unused]] std::span<const EpochPart> earlier) {
    throw ConfigError(
        "this data set cannot continue an epoch with another number of samples per step: expected as many workers and "
        "samples per worker as before, or a checkpoint at the end of an epoch");
  }
};

}  // namespace dragonn::data
