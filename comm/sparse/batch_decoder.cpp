// SPDX-License-Identifier: MIT
#include "comm/sparse/batch_decoder.h"

#include <algorithm>
#include <bit>
#include <limits>

#include <fmt/format.h>

namespace dragonn::comm {
namespace {

constexpr std::uint64_t bit_of(std::size_t index) {
  return std::uint64_t{1} << (index % std::numeric_limits<std::uint64_t>::digits);
}

constexpr std::uint64_t kHighestBit = std::uint64_t{1} << 63;

/// Visits the bits in ascending order.
template <class Visit>
void for_each_bit(std::uint64_t bits, Visit visit) {
  for (; bits != 0; bits &= bits - 1) visit(static_cast<std::size_t>(std::countr_zero(bits)));
}

[[noreturn]] void bad_order(std::size_t near) {
  throw CommError(fmt::format("a rank sent indices that are not in ascending order, near {}", near));
}

[[noreturn]] void bad_index(std::size_t index, std::size_t numel) {
  throw CommError(fmt::format("a rank sent index {} of a bucket of {} elements", index, numel));
}

}  // namespace

std::size_t BatchDecoder::add(const ListView& list) {
  const std::span<const std::uint32_t> indices = list.indices.host();
  const auto end = std::ranges::lower_bound(indices, kEmptySlot);
  const auto entries = static_cast<std::size_t>(end - indices.begin());
  if (entries > 0 && indices[entries - 1] >= numel_) {
    start_anew();
    bad_index(indices[entries - 1], numel_);
  }
  cursors_.push_back({indices, list.values.host(), 0, entries});
  return entries;
}

/// Adds the entries in [begin, begin + window.size()) to the window.
void BatchDecoder::Cursor::add_to(std::span<float> window, std::size_t begin) {
  for (; !done(); ++position) {
    const std::size_t slot = index() - begin;  // wraps below the window: ends the loop too
    if (slot >= window.size()) return;
    window[slot] += values[position];
  }
}

void BatchDecoder::start_anew() {
  cursors_.clear();
  is_present_.fill(0);
  is_word_used_.fill(0);
}

/// Returns the first element of the window that holds the smallest index left, numel_ if none is left.
std::size_t BatchDecoder::next_window() const {
  std::size_t smallest = numel_;
  for (const Cursor& cursor : cursors_) {
    if (!cursor.done()) smallest = std::min<std::size_t>(smallest, cursor.index());
  }
  return smallest == numel_ ? numel_ : smallest / kWindow * kWindow;
}

void BatchDecoder::add_to_window(Cursor& cursor, std::size_t begin) {
  const std::size_t slots = std::min(kWindow, numel_ - begin);
  for (; !cursor.done(); ++cursor.position) {
    const std::size_t slot = cursor.index() - begin;  // wraps below the window: ends the loop too
    if (slot >= slots) return;
    const float value = cursor.values[cursor.position];
    std::uint64_t& word = is_present_[slot / kBits];
    const std::uint64_t bit = bit_of(slot);
    values_[slot] = (word & bit) != 0 ? values_[slot] + value : value;
    word |= bit;
    is_word_used_[slot / kBits / kBits] |= bit_of(slot / kBits);
  }
}

/// Appends the window's entries after the first `count` of the sum, which has room for one more than there are. Returns
/// their new number.
std::size_t BatchDecoder::read_window(std::size_t begin, SparseVector& sum, std::size_t count) {
  std::uint32_t* const indices = sum.indices.data();
  float* const values = sum.values.data();
  for (std::size_t group = 0; group < is_word_used_.size(); ++group) {
    for_each_bit(is_word_used_[group], [&](std::size_t word_in_group) {
      const std::size_t word = group * kBits + word_in_group;
      // Reads some bits more than there may be, and counts those that are: the end of a word is hard to predict.
      constexpr int kAtOnce = 3;
      for (std::uint64_t bits = is_present_[word]; bits != 0;) {
        for (int i = 0; i < kAtOnce; ++i, bits &= bits - 1) {
          const auto bit = static_cast<std::size_t>(std::countr_zero(bits | kHighestBit));
          const std::size_t slot = word * kBits + bit;
          indices[count] = static_cast<std::uint32_t>(begin + slot);
          values[count] = values_[slot];
          count += bits != 0 ? 1 : 0;
        }
      }
      is_present_[word] = 0;
    });
    is_word_used_[group] = 0;
  }
  return count;
}

void BatchDecoder::finish(SparseVector& sum) {
  std::size_t entries = 0;
  for (const Cursor& cursor : cursors_) entries += cursor.end;
  const std::size_t bound = std::min(entries, numel_);
  resize_with_slack(sum, bound + 1, numel_ + 1);  // read_window writes one entry more
  std::size_t count = 0;
  std::size_t read_to = 0;
  std::size_t begin = next_window();
  for (; begin < numel_ && begin >= read_to; begin = next_window()) {
    read_to = begin + kWindow;
    for (Cursor& cursor : cursors_) add_to_window(cursor, begin);
    count = read_window(begin, sum, count);
  }
  const bool all_read = std::ranges::all_of(cursors_, &Cursor::done);
  start_anew();
  if (!all_read) bad_order(begin);
  sum.truncate(count);
}

void BatchDecoder::finish_dense(std::span<float> sum) {
  DRAGONN_CHECK(sum.size() == numel_, "a sum of {} elements for a bucket of {}", sum.size(), numel_);
  for (std::size_t begin = 0; begin < numel_; begin += kWindow) {
    const std::span<float> window = sum.subspan(begin, std::min(kWindow, numel_ - begin));
    std::ranges::fill(window, 0.0f);
    for (Cursor& cursor : cursors_) cursor.add_to(window, begin);
  }
  const auto stuck = std::ranges::find_if_not(cursors_, &Cursor::done);
  const bool all_read = stuck == cursors_.end();
  const std::size_t near = all_read ? numel_ : stuck->index();
  start_anew();
  if (!all_read) bad_order(near);
}

std::size_t add_to_dense(const ListView& list, std::span<float> sum) {
  const std::span<const std::uint32_t> indices = list.indices.host();
  const std::span<const float> values = list.values.host();
  std::size_t count = 0;
  for (std::size_t entry = 0; entry < list.size(); ++entry) {
    const std::uint32_t index = indices[entry];
    if (index == kEmptySlot) continue;
    if (index >= sum.size()) bad_index(index, sum.size());
    sum[index] += values[entry];
    ++count;
  }
  return count;
}

}  // namespace dragonn::comm
