// SPDX-License-Identifier: MIT
#include "kernels/gradient/decode.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/devices.h"
#include "kernels/operation.h"

namespace dragonn::kernels {
namespace {

constexpr std::size_t kBits = 32;  // of a word of marks

void add_cpu(View<const std::uint32_t> indices, View<const float> values, const MarkedValues& sum) {
  for (std::size_t entry = 0; entry < indices.size(); ++entry) {
    const std::uint32_t index = indices.data()[entry];
    if (index == kEmptySlot) continue;
    DRAGONN_ASSERT(index < sum.values.size());
    std::uint32_t& word = sum.marks.data()[index / kBits];
    const std::uint32_t bit = 1u << index % kBits;
    float& target = sum.values.data()[index];
    target = (word & bit) != 0 ? target + values.data()[entry] : values.data()[entry];
    word |= bit;
  }
}

void collect_cpu(const MarkedValues& marked, SparseVector& sum) {
  std::size_t count = 0;
  for (std::size_t place = 0; place < marked.marks.size(); ++place) {
    std::uint32_t& word = marked.marks.data()[place];
    for (; word != 0; word &= word - 1) {
      const std::size_t index = place * kBits + static_cast<std::size_t>(std::countr_zero(word));
      sum.indices.data()[count] = static_cast<std::uint32_t>(index);
      sum.values.data()[count++] = marked.values.data()[index];
    }
  }
  sum.truncate(count);
}

}  // namespace

constinit decltype(decode_add) decode_add("decode", add_cpu);
constinit decltype(decode_collect) decode_collect("decode", collect_cpu);
ListDecoder::ListDecoder(std::size_t numel, const Device& device)
    : numel_(numel), values_(numel, device), marks_((numel + kBits - 1) / kBits, device) {
  decode_add.at(device);
  decode_collect.at(device);
  const std::vector<std::uint32_t> zeros(marks_.size());
  transfer(View<const std::uint32_t>(std::span(zeros)), marks_.view());
}

void ListDecoder::add(View<const std::uint32_t> indices, View<const float> values) {
  DRAGONN_CHECK(indices.size() == values.size(), "a list of {} indices and {} values", indices.size(), values.size());
  if (indices.empty()) return;
  entries_ += indices.size();
  decode_add(indices, values, {values_.view(), marks_.view()});
}

void ListDecoder::finish(SparseVector& sum) {
  sum.resize_discard(std::min(entries_, numel_));
  entries_ = 0;
  if (!sum.empty()) decode_collect({values_.view(), marks_.view()}, sum);
}

}  // namespace dragonn::kernels
