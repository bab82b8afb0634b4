// SPDX-License-Identifier: MIT
#include "comm/sparse/coding_error.h"

#include <algorithm>
#include <utility>

#include "comm/room.h"
#include "comm/sparse/list_operations.h"
#include "comm/sparse/merge.h"

namespace dragonn::comm {

void CodingError::add(const ListView& list, const ListView& decoded) {
  DRAGONN_CHECK(list.size() == decoded.size(), "{} entries and {} of their code", list.size(), decoded.size());
  const auto indices = list.indices.host();
  const auto values = list.values.host(), found = decoded.values.host();
  const bool is_first = left_.empty();
  SparseVector& difference = is_first ? left_ : difference_;
  resize_with_room(difference, list.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    difference.indices.data()[count] = indices[i];
    difference.values.data()[count] = values[i] - found[i];
    count += values[i] != found[i] ? 1 : 0;
  }
  difference.truncate(count);
  if (is_first) return;
  add_entries(left_, difference, merged_);
  std::swap(left_, merged_);
}

void CodingError::give_back(SparseReduction& out) {
  if (out.returned.empty()) return copy_list(left_, out.returned);
  add_entries(out.returned, left_, merged_);
  copy_list(merged_, out.returned);
}

void CodingError::give_back_at_sum(SparseReduction& out) {
  common_indices(left_.indices.host(), out.sum.indices.host(), common_);
  resize_with_room(difference_, common_.size());
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
  resize_with_room(out.returned, left.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    out.returned.indices.data()[count] = indices[i];
    out.returned.values.data()[count] = left[i];
    count += left[i] != 0 ? 1 : 0;
  }
  out.returned.truncate(count);
  out.remainder.truncate(0);
}

void mask_nonzero(const ListView& decoded, SparseReduction& out) {
  const auto indices = decoded.indices.host(), contributed = std::as_const(out.contributed).host();
  const auto values = decoded.values.host();
  resize_with_room(out.applied, contributed.size());
  std::size_t count = 0, position = 0;
  out.is_partly_applied = true;
  if (std::ranges::equal(indices, contributed)) {  // as where a rank sends its whole selection
    for (std::size_t i = 0; i < indices.size(); ++i) {
      out.applied.data()[count] = indices[i];
      count += values[i] != 0 ? 1 : 0;
    }
    return out.applied.truncate(count);
  }
  for (std::size_t i = 0; i < indices.size() && position < contributed.size(); ++i) {
    while (position < contributed.size() && contributed[position] < indices[i]) ++position;
    if (position == contributed.size() || contributed[position] != indices[i] || values[i] == 0) continue;
    out.applied.data()[count++] = indices[i];
  }
  out.applied.truncate(count);
}

}  // namespace dragonn::comm
