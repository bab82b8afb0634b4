// SPDX-License-Identifier: MIT
#include "comm/sparse/coo.h"

#include <algorithm>

namespace dragonn::comm {
namespace {

struct MutableCoo {
  std::span<std::uint32_t> indices;
  std::span<float> values;
};

MutableCoo writable_coo(std::span<std::byte> message) {
  const std::size_t entries = message.size() / SparseVector::kEntryBytes;
  std::byte* values = message.data() + entries * sizeof(std::uint32_t);
  return {{reinterpret_cast<std::uint32_t*>(message.data()), entries}, {reinterpret_cast<float*>(values), entries}};
}

}  // namespace

CooView view_coo(std::span<const std::byte> message) {
  const std::size_t entries = message.size() / SparseVector::kEntryBytes;
  const std::byte* values = message.data() + entries * sizeof(std::uint32_t);
  return {{reinterpret_cast<const std::uint32_t*>(message.data()), entries},
          {reinterpret_cast<const float*>(values), entries}};
}

CooView view_coo(const SparseVector& entries) {
  return {entries.indices.host(), entries.values.host()};
}

void pack_coo(const CooView& entries, std::span<std::byte> message) {
  const MutableCoo slots = writable_coo(message);
  DRAGONN_CHECK(entries.size() <= slots.indices.size(), "{} entries for a message of {}", entries.size(),
                slots.indices.size());
  std::ranges::copy(entries.indices, slots.indices.begin());
  std::ranges::copy(entries.values, slots.values.begin());
  std::ranges::fill(slots.indices.subspan(entries.size()), kEmptySlot);
  std::ranges::fill(slots.values.subspan(entries.size()), 0.0f);
}

}  // namespace dragonn::comm
