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

/// Samples of one size. Training batches are shuffled anew in every epoch (ShardedSampler); evaluation reads each
/// rank's consecutive range. Augmentation is keyed by (seed, epoch, sample), so a sample looks the same whichever rank
/// reads it.
class SampleDataset : public Dataset {
 public:
  /// Writes one sample (sample_shape().size() floats) and appends its labels: one, or one per time step, or a set of
  /// ascending classes, as target_kind() says.
  /// @param augmentation the sample's own stream, null for evaluation: equal streams give equal samples.
  virtual void read(std::size_t index, Rng* augmentation, std::span<float> sample,
                    std::vector<std::int32_t>& labels) const = 0;

  std::unique_ptr<BatchSource> training(const BatchRules& rules) const override;
  std::unique_ptr<BatchSource> evaluation(std::size_t batch, int rank, int world) const override;
};

}  // namespace dragonn::data
