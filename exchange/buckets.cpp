// SPDX-License-Identifier: MIT
#include "exchange/buckets.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace dragonn::exchange {
namespace {

bool is_sparse(const Parameter& parameter, const BucketRules& rules) {
  if (!rules.compress) return false;
  if (parameter.is_vector() && !rules.include_vectors) return false;
  return rules.grouping == BucketRules::Grouping::kModel || parameter.size >= rules.minimum_size;
}

/// Returns whether a tensor may join its neighbour's bucket.
bool joins(const Bucket& bucket, const Parameter& parameter, bool sparse, std::size_t fragment,
           const BucketRules& rules) {
  if (bucket.sparse != sparse || bucket.fragment != fragment || bucket.offset + bucket.size != parameter.offset)
    return false;
  const std::size_t bytes = (bucket.size + parameter.size) * sizeof(float);
  if (rules.grouping == BucketRules::Grouping::kBytes) return bytes <= rules.bytes;
  if (!sparse) return bytes <= kDenseBucketBytes;
  return rules.grouping == BucketRules::Grouping::kModel;
}

}  // namespace

std::vector<std::size_t> fragments_of(const ParameterArena& arena, std::size_t fragments) {
  std::vector<std::size_t> result;
  std::size_t layers = 0;
  std::string_view layer;
  for (const Parameter& parameter : arena.parameters()) {
    const std::string_view own = std::string_view(parameter.name).substr(0, parameter.name.find('.'));
    if (layers == 0 || own != layer) ++layers;
    layer = own;
    result.push_back((layers - 1) % fragments);
  }
  if (fragments > 1 && fragments > layers)
    throw ConfigError(
        fmt::format("update.fragments = {}: the model has {} layers, by the names of its tensors up to the first dot: "
                    "expected at most {}",
                    fragments, layers, layers));
  return result;
}

std::vector<Bucket> make_buckets(const ParameterArena& arena, const BucketRules& rules) {
  const std::vector<std::size_t> fragment_of = fragments_of(arena, rules.fragments);
  std::vector<Bucket> buckets;
  std::string first_name;
  // The buckets of a fragment lie side by side, so that they can be one group.
  std::vector<ParameterId> order = arena.layout();
  std::ranges::stable_sort(order, {}, [&](ParameterId id) { return fragment_of[id]; });
  // Elements of each fragment that are sparsified: all, and those before the next tensor.
  std::vector<std::size_t> all(rules.fragments), before(rules.fragments);
  for (const ParameterId id : order) {
    if (is_sparse(arena[id], rules)) all[fragment_of[id]] += arena[id].size;
  }
  std::size_t last_piece = 0;
  for (const ParameterId id : order) {
    const Parameter& parameter = arena[id];
    const bool sparse = is_sparse(parameter, rules);
    std::size_t piece = 0;  // that has the tensor's middle
    if (sparse && rules.pieces > 1 && rules.grouping == BucketRules::Grouping::kModel) {
      std::size_t& begin = before[fragment_of[id]];
      piece = (2 * begin + parameter.size) * rules.pieces / (2 * all[fragment_of[id]]);
      begin += parameter.size;
    }
    const bool is_next = piece != std::exchange(last_piece, piece);
    if (!buckets.empty() && !is_next && joins(buckets.back(), parameter, sparse, fragment_of[id], rules)) {
      buckets.back().size += parameter.size;
      buckets.back().tensors.push_back(parameter.shape);
      buckets.back().name = first_name + ".." + parameter.name;
    } else {
      buckets.push_back({parameter.name, parameter.offset, parameter.size, {parameter.shape}, sparse, fragment_of[id]});
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

std::vector<BucketGroup> make_groups(std::span<const Bucket> buckets, const FusionRules& rules) {
  const std::size_t arena =
      std::accumulate(buckets.begin(), buckets.end(), std::size_t{0},
                      [](std::size_t sum, const Bucket& bucket) { return sum + bucket.size * sizeof(float); });
  const auto share = static_cast<std::size_t>(FusionRules::kOverlappedShare * static_cast<double>(arena));
  const std::size_t limit = rules.overlaps ? std::min(rules.bytes, share) : rules.bytes;
  std::vector<BucketGroup> groups;
  std::size_t bytes = 0;
  for (std::size_t index = 0; index < buckets.size(); ++index) {
    const std::size_t own = buckets[index].size * sizeof(float);
    const bool is_next = groups.empty() || buckets[index].fragment != buckets[index - 1].fragment;
    if (is_next || bytes + own > limit) {
      groups.push_back({index, index});
      bytes = 0;
    }
    groups.back().end = index + 1;
    bytes += own;
  }
  return groups;
}

std::vector<int> deal_out(std::span<const Bucket> buckets, int places) {
  std::vector<std::size_t> order(buckets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t index) { return buckets[index].size; });
  std::map<std::size_t, std::vector<std::size_t>> loads;  // by fragment and place
  std::vector<int> place_of(buckets.size());
  for (const std::size_t index : order) {
    std::vector<std::size_t>& load = loads[buckets[index].fragment];
    load.resize(static_cast<std::size_t>(places));
    const auto least = std::ranges::min_element(load);
    *least += buckets[index].size;
    place_of[index] = static_cast<int>(least - load.begin());
  }
  return place_of;
}

std::vector<Bucket> group_slices(const std::vector<Bucket>& buckets, const std::vector<BucketGroup>& groups) {
  std::vector<Bucket> slices;
  for (const BucketGroup& group : groups) {
    Bucket slice = buckets[group.begin];
    for (std::size_t index = group.begin + 1; index < group.end; ++index) {
      slice.size += buckets[index].size;
      slice.tensors.insert(slice.tensors.end(), buckets[index].tensors.begin(), buckets[index].tensors.end());
    }
    if (group.end - group.begin > 1)
      slice.name = fmt::format("{}..{}", buckets[group.begin].name, buckets[group.end - 1].name);
    slices.push_back(std::move(slice));
  }
  return slices;
}

}  // namespace dragonn::exchange
