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
  resize_with_room(indices, count);
  std::memcpy(indices.data(), bytes.data(), bytes.size());
  require_ascending(reader, indices.host());
}

void require_ascending(const CodeReader& reader, std::span<const std::uint32_t> indices) {
  bool ascends = true;
  for (std::size_t i = 1; i < indices.size(); ++i) ascends &= indices[i - 1] < indices[i];
  reader.require(ascends, "the {} indices do not ascend", indices.size());
  reader.require(indices.back() < kEmptySlot, "the last index is {}", indices.back());
}

}  // namespace dragonn::codec
