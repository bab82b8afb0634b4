// SPDX-License-Identifier: MIT
#include "bench/payload_lists.h"

#include <algorithm>
#include <cmath>

#include "comm/blocks.h"
#include "core/rng.h"

namespace dragonn::bench {
namespace {

using comm::Block;

/// Draws one index in each of `count` parts of the range.
void draw_indices(Rng rng, const Block& range, std::size_t count, std::uint32_t* indices) {
  for (std::size_t i = 0; i < count; ++i) {
    const Block part = comm::block(range.size(), count, i);
    indices[i] = static_cast<std::uint32_t>(range.begin + part.begin + rng.below(part.size()));
  }
}

void draw_values(Rng rng, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    const float sign = rng() % 2 == 0 ? 1.0f : -1.0f;
    values[i] = sign * (1.0f - std::log(1.0f - rng.uniform()));
  }
}

}  // namespace

void PayloadLists::draw(std::uint64_t step, int rank, int world_size, SparseVector& selected) const {
  const auto ranks = static_cast<std::size_t>(world_size);
  const auto me = static_cast<std::size_t>(rank);
  const bool is_apart = rules_.traits.partitioned;
  const bool is_idle = rules_.traits.leader_only && step % ranks != me;
  const Block range = is_apart ? comm::block(rules_.numel, ranks, me) : Block{0, rules_.numel};
  const std::size_t wanted = is_apart ? comm::block(rules_.k, ranks, me).size() : rules_.k;
  const std::size_t count = is_idle ? 0 : std::min(wanted, range.size());
  selected.resize_discard(count);
  const std::uint64_t place = rules_.traits.shared_indices ? 0 : me;
  draw_indices(Rng(rules_.seed, "payload places", {step, place}), range, count, selected.indices.data());
  draw_values(Rng(rules_.seed, "payload values", {step, me}), count, selected.values.data());
}

}  // namespace dragonn::bench
