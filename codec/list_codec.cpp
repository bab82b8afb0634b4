// SPDX-License-Identifier: MIT
#include "codec/list_codec.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace dragonn::codec {
namespace {

constexpr std::size_t kIndexBytes = sizeof(std::uint32_t);

/// Returns the number of entries: those before the empty slots at the end. @throws DataError if they do not ascend.
std::size_t checked_entries(std::span<const std::uint32_t> indices) {
  std::uint32_t falls = 0;  // as wide as an index, and no branch in the loop: it is a pass over vectors
  for (std::size_t i = 1; i < indices.size(); ++i)
    falls |= (indices[i - 1] >= indices[i] ? 1u : 0u) & (indices[i] != kEmptySlot ? 1u : 0u);
  if (falls != 0) [[unlikely]] {
    const auto place = std::ranges::adjacent_find(
        indices, [](std::uint32_t left, std::uint32_t right) { return right <= left && right != kEmptySlot; });
    throw DataError(fmt::format("index {} follows index {}: indices ascend", *std::next(place), *place));
  }
  if (indices.empty() || indices.back() != kEmptySlot) return indices.size();
  return static_cast<std::size_t>(std::ranges::lower_bound(indices, kEmptySlot) - indices.begin());
}

/// Writes all indices as uint32, then all values as float32. A list is read in place.
class RawLists final : public ListCodec {
 public:
  std::size_t max_bytes(std::size_t entries, bool has_values) const override {
    return entries * entry_bytes(has_values);
  }
  bool is_fixed_size() const override { return true; }
  bool is_lossy() const override { return false; }
  const ValueCodec* sums() const override { return nullptr; }

  std::size_t encode(const ListView& list, bool has_values, std::span<std::byte> code) const override {
    const std::size_t slots = code.size() / entry_bytes(has_values);
    DRAGONN_CHECK(list.size() <= slots, "{} entries for a message of {}", list.size(), slots);
    auto* indices = reinterpret_cast<std::uint32_t*>(code.data());
    std::fill(std::copy_n(list.indices.host().data(), list.size(), indices), indices + slots, kEmptySlot);
    if (!has_values) return code.size();
    auto* values = reinterpret_cast<float*>(indices + slots);
    std::fill(std::copy_n(list.values.host().data(), list.size(), values), values + slots, 0.0f);
    return code.size();
  }

  ListView decode(std::span<const std::byte> code, bool has_values, SparseVector& /*room*/) const override {
    if (code.size() % entry_bytes(has_values) != 0)
      throw DataError(fmt::format("{} bytes are no list of entries of {}", code.size(), entry_bytes(has_values)));
    const std::size_t slots = code.size() / entry_bytes(has_values);
    const auto* indices = reinterpret_cast<const std::uint32_t*>(code.data());
    const auto* values = reinterpret_cast<const float*>(indices + slots);
    const std::size_t entries = checked_entries({indices, slots});
    return {View<const std::uint32_t>(std::span(indices, entries)),
            has_values ? View<const float>(std::span(values, entries)) : View<const float>()};
  }

 private:
  static constexpr std::size_t entry_bytes(bool has_values) {
    return has_values ? SparseVector::kEntryBytes : kIndexBytes;
  }
};

/// Writes the code of the indices, zeros up to a multiple of 4 bytes, and the code of the values, which is as long as
/// their number says. The code of no entries is empty.
class CodedLists final : public ListCodec {
 public:
  CodedLists(std::unique_ptr<IndexCodec> indices, std::unique_ptr<ValueCodec> values, const ValueCodecEntry& traits)
      : indices_(std::move(indices)),
        values_(std::move(values)),
        lossy_(traits.lossy),
        carries_sums_(traits.carries_sums) {}

  std::size_t max_bytes(std::size_t entries, bool has_values) const override {
    if (entries == 0) return 0;
    return aligned(indices_->max_bytes(entries)) + (has_values ? values_->code_bytes(entries) : 0);
  }
  bool is_fixed_size() const override { return false; }
  bool is_lossy() const override { return lossy_; }
  const ValueCodec* sums() const override { return lossy_ && carries_sums_ ? values_.get() : nullptr; }

  std::size_t encode(const ListView& list, bool has_values, std::span<std::byte> code) const override {
    if (list.size() == 0) return 0;
    DRAGONN_CHECK(code.size() >= max_bytes(list.size(), has_values), "{} bytes for the code of {} entries", code.size(),
                  list.size());
    const std::size_t end = indices_->encode(list.indices.host(), code);
    if (!has_values) return end;
    const std::size_t begin = aligned(end);
    std::ranges::fill(code.subspan(end, begin - end), std::byte{0});
    const std::span<std::byte> values = code.subspan(begin, values_->code_bytes(list.size()));
    values_->encode(list.values, {}, values);
    return begin + values.size();
  }

  ListView decode(std::span<const std::byte> code, bool has_values, SparseVector& scratch) const override {
    if (code.empty()) return {};
    const std::size_t end = code.size() - indices_->decode(code, scratch.indices).size();
    const std::span<const std::uint32_t> indices = std::as_const(scratch.indices).host();
    if (checked_entries(indices) != indices.size()) throw DataError(fmt::format("index {} is none", kEmptySlot));
    if (!has_values) {
      if (end != code.size())
        throw DataError(fmt::format("{} bytes behind the code of {} indices", code.size() - end, indices.size()));
      return {indices, {}};
    }
    const std::size_t begin = aligned(end), expected = begin + values_->code_bytes(indices.size());
    if (code.size() != expected)
      throw DataError(
          fmt::format("{} bytes for the code of {} entries, which has {}", code.size(), indices.size(), expected));
    return {indices, values_->decode(code.subspan(begin), indices.size(), scratch.values)};
  }

 private:
  /// Rounds up: values begin at a multiple of their size.
  static constexpr std::size_t aligned(std::size_t bytes) {
    return (bytes + sizeof(float) - 1) / sizeof(float) * sizeof(float);
  }

  std::unique_ptr<IndexCodec> indices_;
  std::unique_ptr<ValueCodec> values_;
  bool lossy_, carries_sums_;
};

}  // namespace

bool CodecChoice::is_lossy() const {
  return Registry<ValueCodecEntry>::instance().at(values.name).lossy;
}

bool CodecChoice::carries_sums() const {
  return Registry<ValueCodecEntry>::instance().at(values.name).carries_sums;
}

std::unique_ptr<ListCodec> make_list_codec(const CodecChoice& coding) {
  const auto& indices = Registry<IndexCodecEntry>::instance().at(coding.indices.name);
  const auto& values = Registry<ValueCodecEntry>::instance().at(coding.values.name);
  if (coding.is_raw()) return std::make_unique<RawLists>();
  return std::make_unique<CodedLists>(indices.make(coding.indices.settings), values.make(coding.values.settings),
                                      values);
}

ListEstimate::ListEstimate(const CodecChoice& coding) {
  const auto& indices = Registry<IndexCodecEntry>::instance().at(coding.indices.name);
  const auto& values = Registry<ValueCodecEntry>::instance().at(coding.values.name);
  if (coding.is_raw()) return;
  indices_ = indices.make(coding.indices.settings);
  values_ = values.make(coding.values.settings);
  is_estimate_ = !indices.is_exact;
  is_lossy_ = values.lossy;
  if (values.carries_sums) sum_bytes_ = static_cast<double>(values_->code_bytes(1));
}

double ListEstimate::bytes(double entries, double numel) const {
  if (entries <= 0) return 0;
  if (!indices_) return entries * static_cast<double>(SparseVector::kEntryBytes);
  return index_bytes(entries, numel) +
         static_cast<double>(values_->code_bytes(static_cast<std::size_t>(std::ceil(entries))));
}

double ListEstimate::index_bytes(double entries, double numel) const {
  if (entries <= 0) return 0;
  if (!indices_) return entries * sizeof(std::uint32_t);
  return entries * indices_->expected_bits(entries, numel) / 8;
}

}  // namespace dragonn::codec
