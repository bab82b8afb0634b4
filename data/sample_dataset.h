// SPDX-License-Identifier: MIT
/// SampleDataset: samples of one size that can be read in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/rng.h"
#include "data/dataset.h"

namespace dragonn::data {

/// The random streams of an epoch's samples. They are keyed by (seed, epoch, sample), so a sample looks the same
/// whichever rank reads it.
struct Augmentation {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;

  Rng stream(std::uint32_t sample) const { return Rng(seed, "augment", {epoch, sample}); }
};

/// Reads samples into batches, for one batch source.
class SampleReader {
 public:
  virtual ~SampleReader() = default;
  /// Appends the samples to a batch, which is empty. @param augmentation null for evaluation.
  virtual void read(std::span<const std::uint32_t> samples, const Augmentation* augmentation, Batch& batch) = 0;
};

/// Samples of one size. Training batches are shuffled anew in every epoch (ShardedSampler); evaluation reads each
/// rank's consecutive range.
class SampleDataset : public Dataset {
 public:
  /// Writes one sample (sample_shape().size() floats) and appends its labels: one, or one per time step, or a set of
  /// ascending classes, as target_kind() says.
  /// @param augmentation the sample's own stream, null for evaluation: equal streams give equal samples.
  virtual void read(std::size_t index, Rng* augmentation, std::span<float> sample,
                    std::vector<std::int32_t>& labels) const = 0;

  std::unique_ptr<BatchSource> training(const BatchRules& rules) const override;
  std::unique_ptr<BatchSource> evaluation(std::size_t batch, int rank, int world) const override;

 protected:
  /// Returns a reader that calls read() for one sample after the other.
  virtual std::unique_ptr<SampleReader> reader(int rank) const;
  /// Returns the samples that a rank evaluates.
  virtual EvaluationShard shard(int rank, int world) const { return evaluation_shard(size(), rank, world); }
};

}  // namespace dragonn::data
