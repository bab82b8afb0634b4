// SPDX-License-Identifier: MIT
/// Plain indices, as uint32: the way out of codecs whose code would be longer. And the head of codes that have it.
#pragma once

#include <cstdint>
#include <span>

#include "codec/code_bytes.h"
#include "core/buffer.h"

namespace dragonn::codec {

/// Writes indices as they are. Returns the first byte behind them.
inline std::byte* write_plain(std::span<const std::uint32_t> indices, std::byte* to) {
  if (!indices.empty()) std::memcpy(to, indices.data(), indices.size_bytes());
  return to + indices.size_bytes();
}

/// Reads `count` of them. @throws DataError if there are fewer.
inline void read_plain(CodeReader& reader, std::uint32_t count, Buffer<std::uint32_t>& indices) {
  const std::span<const std::byte> bytes = reader.take(std::uint64_t{count} * sizeof(std::uint32_t), "indices");
  reader.require(count > 0, "a code of no indices is not empty");
  resize_with_slack(indices, count);
  std::memcpy(indices.data(), bytes.data(), bytes.size());
}

/// The part of a bucket from a list's first index to its last, in cells of equal size, and the head of its code: uint32
/// number of indices | uint32 first cell | uint32 number of cells, 0: the indices follow as uint32.
struct CellRange {
  std::uint32_t count = 0;  ///< indices
  std::uint32_t first = 0;  ///< cell
  std::uint32_t cells = 0;

  static constexpr std::size_t kBytes = 3 * sizeof(std::uint32_t);

  /// Finds the range of a list of at least one index. @param cell elements of a cell.
  static CellRange of(std::span<const std::uint32_t> indices, std::uint32_t cell) {
    const std::uint32_t first = indices.front() / cell;
    return {static_cast<std::uint32_t>(indices.size()), first, indices.back() / cell - first + 1};
  }
  /// Writes the head. @param plain whether the indices follow as they are. Returns the first byte behind it.
  std::byte* write(bool plain, std::byte* to) const {
    for (const std::uint32_t number : {count, first, plain ? 0 : cells}) {
      store(number, to);
      to += sizeof(number);
    }
    return to;
  }
  /// Reads the head. @param numel_cells of a bucket as large as may be.  @throws DataError if the range is not in it.
  static CellRange read(CodeReader& reader, std::uint64_t numel_cells) {
    CellRange range;
    range.count = reader.number<std::uint32_t>("the number of indices");
    range.first = reader.number<std::uint32_t>("the first cell");
    range.cells = reader.number<std::uint32_t>("the number of cells");
    reader.require(range.count > 0, "a code of no indices is not empty");
    reader.require(range.cells == 0 || std::uint64_t{range.first} + range.cells <= numel_cells,
                   "{} cells from cell {} on, and there are {}", range.cells, range.first, numel_cells);
    return range;
  }
};

}  // namespace dragonn::codec
