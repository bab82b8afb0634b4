// SPDX-License-Identifier: MIT
#include "trainer/cost_model/overlap_obstacle.h"

#include <fmt/format.h>

namespace dragonn::trainer {

std::string overlap_obstacle(const Config& config, const ParameterArena& arena,
                             std::span<const exchange::Bucket> buckets) {
  const TrainConfig& train = config.train;
  // Global clipping is of the exchanged sums: it comes after all buckets in any case.
  if (train.clip == Clip::kLocal || train.clip == Clip::kLocalSqrtWorkers) {
    return fmt::format("train.clip = \"{}\" scales every bucket by the norm of the whole gradient",
                       name_of(train.clip));
  }
  if (train.non_finite == NonFinite::kSkip)
    return "train.non_finite = \"skip\" checks the whole gradient before any of it is sent";
  // Matrices lie first in the arena, last layer first, and buckets are exchanged in its order.
  if (!buckets.empty() && buckets.front().size < arena.matrix_size()) return {};
  return fmt::format(
      "the first bucket ({}) reaches to the first layer, which backward finishes last: smaller buckets "
      "(compression.bucket) can overlap",
      buckets.empty() ? "none" : buckets.front().name);
}

}  // namespace dragonn::trainer
