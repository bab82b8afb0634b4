// SPDX-License-Identifier: MIT
#include "comm/sparse/batch_decoder.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "comm/room.h"

namespace dragonn::comm {
namespace {

constexpr std::size_t kBits = 64;

[[noreturn]] void bad_index(std::uint32_t index, std::size_t numel) {
  throw CommError(fmt::format("a peer sent index {} of a bucket of {} elements", index, numel));
}

}  // namespace

void BatchDecoder::allocate() {
  values_.resize_discard(numel_);
  is_present_.resize_discard((numel_ + kBits - 1) / kBits);
  std::ranges::fill(is_present_.host(), std::uint64_t{0});
}

std::size_t BatchDecoder::add(const CooView& list) {
  if (values_.size() != numel_) allocate();
  float* const values = values_.data();
  std::uint64_t* const is_present = is_present_.data();
  std::size_t count = 0;
  for (std::size_t entry = 0; entry < list.size(); ++entry) {
    const std::uint32_t index = list.indices[entry];
    if (index == kEmptySlot) continue;
    if (index >= numel_) bad_index(index, numel_);
    std::uint64_t& word = is_present[index / kBits];
    const std::uint64_t bit = std::uint64_t{1} << (index % kBits);
    values[index] = (word & bit) != 0 ? values[index] + list.values[entry] : list.values[entry];
    word |= bit;
    ++count;
  }
  added_ += count;
  return count;
}

void BatchDecoder::finish(SparseVector& sum) {
  const std::size_t bound = std::min(added_, numel_);
  resize_with_room(sum.indices, bound, numel_);
  resize_with_room(sum.values, bound, numel_);
  std::uint32_t* const indices = sum.indices.data();
  float* const values = sum.values.data();
  std::size_t count = 0;
  const std::span<std::uint64_t> words = is_present_.host();
  for (std::size_t word = 0; word < words.size(); ++word) {
    for (std::uint64_t bits = words[word]; bits != 0; bits &= bits - 1) {
      const std::size_t index = word * kBits + static_cast<std::size_t>(std::countr_zero(bits));
      indices[count] = static_cast<std::uint32_t>(index);
      values[count++] = values_.data()[index];
    }
    words[word] = 0;
  }
  sum.truncate(count);
  added_ = 0;
}

std::size_t add_to_dense(const CooView& list, std::span<float> sum) {
  std::size_t count = 0;
  for (std::size_t entry = 0; entry < list.size(); ++entry) {
    const std::uint32_t index = list.indices[entry];
    if (index == kEmptySlot) continue;
    if (index >= sum.size()) bad_index(index, sum.size());
    sum[index] += list.values[entry];
    ++count;
  }
  return count;
}

}  // namespace dragonn::comm
