// SPDX-License-Identifier: MIT
#include "layers/memory_planner.h"

#include <algorithm>
#include <numeric>

#include "kernels/nn/plan.h"

namespace dragonn::layers {

MemoryPlanner::Block MemoryPlanner::add(std::size_t floats, std::size_t first, std::size_t last) {
  blocks_.push_back({kernels::aligned_floats(floats), first, last, 0});
  return blocks_.size() - 1;
}

void MemoryPlanner::extend(Block block, std::size_t time) {
  Extent& extent = blocks_[block];
  extent.first = std::min(extent.first, time);
  extent.last = std::max(extent.last, time);
}

void MemoryPlanner::place() {
  std::vector<Block> by_size(blocks_.size());
  std::iota(by_size.begin(), by_size.end(), Block{0});
  std::ranges::stable_sort(by_size, [&](Block a, Block b) { return blocks_[a].size > blocks_[b].size; });
  std::vector<Block> placed;  // ascending offset
  for (Block block : by_size) {
    Extent& extent = blocks_[block];
    for (Block other : placed) {
      const Extent& neighbour = blocks_[other];
      if (!extent.overlaps_in_time(neighbour)) continue;
      if (extent.offset + extent.size <= neighbour.offset) break;
      extent.offset = std::max(extent.offset, neighbour.offset + neighbour.size);
    }
    total_ = std::max(total_, extent.offset + extent.size);
    placed.insert(std::ranges::upper_bound(placed, extent.offset, {}, [&](Block b) { return blocks_[b].offset; }),
                  block);
  }
}

std::size_t MemoryPlanner::live_at(std::size_t time) const {
  std::size_t floats = 0;
  for (const Extent& extent : blocks_)
    if (extent.first <= time && time <= extent.last) floats += extent.size;
  return floats;
}

}  // namespace dragonn::layers
