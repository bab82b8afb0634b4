// SPDX-License-Identifier: MIT
#include "codec/indices/plain_indices.h"

#include "codec/indices/index_codec.h"
#include "core/sparse_vector.h"

namespace dragonn::codec {

std::byte* write_plain(std::span<const std::uint32_t> indices, std::byte* to) {
  if (!indices.empty()) std::memcpy(to, indices.data(), indices.size_bytes());
  return to + indices.size_bytes();
}

void read_plain(CodeReader& reader, std::uint32_t count, Buffer<std::uint32_t>& indices) {
  const std::span<const std::byte> bytes = reader.take(std::uint64_t{count} * sizeof(std::uint32_t), "indices");
  reader.require(count > 0, "a code of no indices is not empty");
  resize_with_slack(indices, count);
  std::memcpy(indices.data(), bytes.data(), bytes.size());
}

CellRange CellRange::of(std::span<const std::uint32_t> indices, std::uint32_t cell) {
  const std::uint32_t first = indices.front() / cell;
  return {static_cast<std::uint32_t>(indices.size()), first, indices.back() / cell - first + 1};
}

std::byte* CellRange::write(bool plain, std::byte* to) const {
  for (const std::uint32_t number : {count, first, plain ? 0 : cells}) {
    store(number, to);
    to += sizeof(number);
  }
  return to;
}

CellRange CellRange::read(CodeReader& reader, std::uint64_t numel_cells) {
  CellRange range;
  range.count = reader.number<std::uint32_t>("the number of indices");
  range.first = reader.number<std::uint32_t>("the first cell");
  range.cells = reader.number<std::uint32_t>("the number of cells");
  reader.require(range.count > 0, "a code of no indices is not empty");
  reader.require(range.cells == 0 || std::uint64_t{range.first} + range.cells <= numel_cells,
                 "{} cells from cell {} on, and there are {}", range.cells, range.first, numel_cells);
  return range;
}

}  // namespace dragonn::codec
