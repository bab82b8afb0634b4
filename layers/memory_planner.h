// SPDX-License-Identifier: MIT
/// MemoryPlanner: places blocks with known lifetimes in one piece of memory, reusing what is free.
#pragma once

#include <cstddef>
#include <vector>

namespace dragonn::layers {

/// Places the largest block first, each at the lowest offset without a block that is live at the same time.
/// O(blocks^2).
class MemoryPlanner {
 public:
  using Block = std::size_t;

  /// Adds a block of `floats` elements (rounded up to a cache line), live from time `first` to `last`, both included.
  Block add(std::size_t floats, std::size_t first, std::size_t last);
  /// Extends the block's lifetime to include `time`.
  void extend(Block block, std::size_t time);

  /// Computes the offsets. Called once, last.
  void place();
  std::size_t offset(Block block) const { return blocks_[block].offset; }
  std::size_t size(Block block) const { return blocks_[block].size; }
  /// Returns the floats of memory that hold all blocks.
  std::size_t total() const { return total_; }
  /// Returns the floats of the blocks that are live at `time`.
  std::size_t live_at(std::size_t time) const;

 private:
  struct Extent {
    std::size_t size = 0;
    std::size_t first = 0;
    std::size_t last = 0;
    std::size_t offset = 0;

    bool overlaps_in_time(const Extent& other) const { return first <= other.last && other.first <= last; }
  };

  std::vector<Extent> blocks_;
  std::size_t total_ = 0;
};

}  // namespace dragonn::layers
