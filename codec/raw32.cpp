// SPDX-License-Identifier: MIT
#include <algorithm>

#include <fmt/format.h>

#include "codec/list_codec.h"

namespace dragonn::codec {
namespace {

constexpr std::size_t kIndexBytes = sizeof(std::uint32_t);

/// Writes all indices as uint32, then all values as float32. A list is read in place.
class Raw32 final : public ListCodec {
 public:
  std::size_t most_bytes(std::size_t entries, bool has_values) const override {
    return entries * entry_bytes(has_values);
  }
  bool is_fixed_size() const override { return true; }

  std::size_t encode(const ListView& list, bool has_values, std::span<std::byte> code) const override {
    const std::size_t slots = code.size() / entry_bytes(has_values);
    DRAGONN_CHECK(list.size() <= slots, "{} entries for a message of {}", list.size(), slots);
    auto* indices = reinterpret_cast<std::uint32_t*>(code.data());
    std::fill(std::ranges::copy(list.indices.host(), indices).out, indices + slots, kEmptySlot);
    if (!has_values) return code.size();
    auto* values = reinterpret_cast<float*>(indices + slots);
    std::fill(std::ranges::copy(list.values.host(), values).out, values + slots, 0.0f);
    return code.size();
  }

  ListView decode(std::span<const std::byte> code, bool has_values, SparseVector& /*room*/) const override {
    if (code.size() % entry_bytes(has_values) != 0)
      throw DataError(fmt::format("{} bytes are no list of entries of {}", code.size(), entry_bytes(has_values)));
    const std::size_t slots = code.size() / entry_bytes(has_values);
    const auto* indices = reinterpret_cast<const std::uint32_t*>(code.data());
    const auto* values = reinterpret_cast<const float*>(indices + slots);
    return {View<const std::uint32_t>(std::span(indices, slots)),
            has_values ? View<const float>(std::span(values, slots)) : View<const float>()};
  }

 private:
  static constexpr std::size_t entry_bytes(bool has_values) {
    return has_values ? SparseVector::kEntryBytes : kIndexBytes;
  }
};

const Registration<ListCodecEntry> registration{
    {{.name = kRawCodec,
      .summary = "indices as uint32, values as float32: 8 bytes an entry",
      .source = "the wire of gTop-k, SIDCo, Ok-Topk, DRAGONN and ExDyna"},
     /*make=*/[](const Settings&) -> std::unique_ptr<ListCodec> { return std::make_unique<Raw32>(); }}};

}  // namespace
}  // namespace dragonn::codec
