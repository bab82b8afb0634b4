// SPDX-License-Identifier: MIT
#include "comm/sparse/coding_error.h"

#include <algorithm>
#include <utility>

#include "comm/sparse/list_operations.h"

namespace dragonn::comm {
namespace {

/// Finds kept <- the indices at the places i, in ascending order, for which keeps(i). `kept` may hold the indices.
template <class Keeps>
void keep_indices(std::span<const std::uint32_t> indices, Keeps keeps, Buffer<std::uint32_t>& kept) {
  resize_with_slack(kept, indices.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    kept.data()[count] = indices[i];
    count += keeps(i) ? 1 : 0;
  }
  kept.truncate(count);
}

}  // namespace

void CodingError::clear() {
  left_.clear();
  stayed_.clear();
}

void CodingError::add(const ListView& list, const ListView& decoded, bool zeros_stay) {
  DRAGONN_CHECK(list.size() == decoded.size(), "{} entries and {} of their code", list.size(), decoded.size());
  const auto indices = list.indices.host();
  const auto values = list.values.host(), found = decoded.values.host();
  const bool is_first = left_.empty();
  SparseVector& difference = is_first ? left_ : difference_;
  resize_with_slack(difference, list.size());
  reserve_more(list.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    difference.indices.data()[count] = indices[i];
    difference.values.data()[count] = values[i] - found[i];
    count += values[i] != found[i] ? 1 : 0;
    if (found[i] == 0 && (zeros_stay || values[i] != 0)) stayed_.push_back(indices[i]);
  }
  difference.truncate(count);
  if (is_first) return;
  add_entries(left_, difference, merged_);
  std::swap(left_, merged_);
}

void CodingError::note_stayed(std::span<const std::uint32_t> indices) {
  reserve_more(indices.size());
  stayed_.insert(stayed_.end(), indices.begin(), indices.end());
}

void CodingError::reserve_more(std::size_t more) {
  const std::size_t wanted = stayed_.size() + more;
  if (wanted > stayed_.capacity()) stayed_.reserve(2 * wanted);
}

void CodingError::unmask_stayed(SparseReduction& out) {
  if (stayed_.empty()) return;
  if (!std::ranges::is_sorted(stayed_)) std::ranges::sort(stayed_);
  const std::span<const std::uint32_t> masked = out.masked().host();
  out.is_partly_applied = true;
  std::size_t position = 0;
  const auto left = [&](std::size_t i) {
    while (position < stayed_.size() && stayed_[position] < masked[i]) ++position;
    return position == stayed_.size() || stayed_[position] != masked[i];
  };
  keep_indices(masked, left, out.applied);
}

void CodingError::give_back(SparseReduction& out) {
  if (out.returned.empty()) return copy_list(left_, out.returned);
  add_entries(out.returned, left_, merged_);
  copy_list(merged_, out.returned);
}

void CodingError::give_back_at_sum(SparseReduction& out) {
  common_indices(left_.indices.host(), out.sum.indices.host(), common_);
  resize_with_slack(difference_, common_.size());
  std::ranges::copy(common_.host(), difference_.indices.data());
  values_at(left_, common_.host(), difference_.values.host());
  add_entries(out.returned, difference_, merged_);
  copy_list(merged_, out.returned);
}

void return_remainder(SparseReduction& out) {
  if (out.remainder.size() == 0) return;  // as between GPUs, where sums are not rounded and the host may not look
  const std::span<const float> left = std::as_const(out.remainder).host();
  DRAGONN_CHECK(left.size() == out.sum.size(), "{} remainders of {} entries", left.size(), out.sum.size());
  const std::span<const std::uint32_t> indices = std::as_const(out.sum.indices).host();
  resize_with_slack(out.returned, left.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    out.returned.indices.data()[count] = indices[i];
    out.returned.values.data()[count] = left[i];
    count += left[i] != 0 ? 1 : 0;
  }
  out.returned.truncate(count);
  out.remainder.truncate(0);
  if (out.is_partly_applied) return;
  const std::span<const std::uint8_t> stayed = std::as_const(out.stayed).host();
  if (std::ranges::count(stayed, 0) == std::ssize(stayed)) return;
  out.is_partly_applied = true;
  keep_indices(
      indices, [&](std::size_t i) { return stayed[i] == 0; }, out.applied);
}

void mask_nonzero(SparseReduction& out) {
  const std::span<const std::uint32_t> contributed = std::as_const(out.contributed).host();
  const std::span<const std::uint32_t> indices = std::as_const(out.sum.indices).host();
  const std::span<const float> values = std::as_const(out.sum.values).host();
  out.is_partly_applied = true;
  std::size_t position = 0;
  const auto is_in_sum = [&](std::size_t i) {
    while (position < indices.size() && indices[position] < contributed[i]) ++position;
    return position < indices.size() && indices[position] == contributed[i] && values[position] != 0;
  };
  keep_indices(contributed, is_in_sum, out.applied);
}

}  // namespace dragonn::comm
