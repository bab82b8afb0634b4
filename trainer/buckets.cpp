// SPDX-License-Identifier: MIT
#include "trainer/buckets.h"

#include <limits>

#include <fmt/format.h>

namespace dragonn::trainer {
namespace {

bool is_sparse(const Parameter& parameter, const BucketRules& rules) {
  if (!rules.compress) return false;
  if (parameter.is_vector() && !rules.include_vectors) return false;
  return rules.grouping == BucketRules::Grouping::kModel || parameter.size >= rules.minimum_size;
}

/// Whether a tensor may join the bucket that its neighbour is in.
bool joins(const Bucket& bucket, const Parameter& parameter, bool sparse, const BucketRules& rules) {
  if (bucket.sparse != sparse) return false;
  const std::size_t bytes = (bucket.size + parameter.size) * sizeof(float);
  if (rules.grouping == BucketRules::Grouping::kBytes) return bytes <= rules.bytes;
  if (!sparse) return bytes <= kDenseBucketBytes;
  return rules.grouping == BucketRules::Grouping::kModel;
}

}  // namespace

std::vector<Bucket> make_buckets(const ParameterArena& arena, const BucketRules& rules) {
  std::vector<Bucket> buckets;
  std::string first_name;
  for (ParameterId id : arena.layout()) {
    const Parameter& parameter = arena[id];
    const bool sparse = is_sparse(parameter, rules);
    if (!buckets.empty() && joins(buckets.back(), parameter, sparse, rules)) {
      buckets.back().size += parameter.size;
      ++buckets.back().tensors;
      buckets.back().name = first_name + ".." + parameter.name;
    } else {
      buckets.push_back({parameter.name, parameter.offset, parameter.size, 1, sparse});
      first_name = parameter.name;
    }
  }
  for (const Bucket& bucket : buckets) {
    if (bucket.size >= std::numeric_limits<std::uint32_t>::max()) {
      throw ConfigError(
          fmt::format("bucket {} has {} elements; indices are 32 bits: set compression.bucket to a size in MiB",
                      bucket.name, bucket.size));
    }
  }
  return buckets;
}

}  // namespace dragonn::trainer
