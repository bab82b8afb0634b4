// SPDX-License-Identifier: MIT
/// Blocks: the even split of a sequence.
#pragma once

#include <algorithm>
#include <cstddef>

namespace dragonn::comm {

/// A half-open range of elements.
struct Block {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};

/// Returns the first element of block `index` when `count` elements are split into `blocks` whose sizes differ by at
/// most one, the larger ones first. `index` may be `blocks`: the end.
constexpr std::size_t block_begin(std::size_t count, std::size_t blocks, std::size_t index) {
  return index * (count / blocks) + std::min(index, count % blocks);
}

/// Returns block `index` of that split. Blocks are empty if there are fewer elements than blocks.
constexpr Block block(std::size_t count, std::size_t blocks, std::size_t index) {
  return {block_begin(count, blocks, index), block_begin(count, blocks, index + 1)};
}

}  // namespace dragonn::comm
