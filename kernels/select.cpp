// SPDX-License-Identifier: MIT
#include "kernels/select.h"

#include <algorithm>
#include <cmath>

#include "kernels/gradient_pass_sweep.h"

namespace dragonn::kernels {

void reserve_selection(SparseVector& selected, std::size_t numel) {
  selected.resize_discard(selected.device().is_cpu() ? numel : numel / kReservedShare + 1);
  selected.clear();
}

void select_threshold(View<const float> values, float threshold, std::size_t begin, std::size_t end,
                      SparseVector& selected) {
  DRAGONN_CHECK(begin <= end && end <= values.size(), "a selection in [{}, {}) of {} elements", begin, end,
                values.size());
  const detail::AccumulateJob job{.gradient = values.host().data()};
  detail::sweep_select(job, {begin, end}, {begin, end}, threshold, selected);
}

void select_threshold(View<const float> values, float threshold, SparseVector& selected) {
  select_threshold(values, threshold, 0, values.size(), selected);
}

std::size_t count_threshold(const SparseVector& entries, float threshold) {
  const auto values = entries.values.host();
  return static_cast<std::size_t>(
      std::count_if(values.begin(), values.end(), [&](float value) { return std::fabs(value) >= threshold; }));
}

void gather(View<const float> values, View<const std::uint32_t> indices, View<float> out) {
  const auto source = values.host();
  const auto places = indices.host();
  const auto target = out.host();
  DRAGONN_CHECK(target.size() == places.size(), "gather of {} indices into {} values", places.size(), target.size());
  for (std::size_t entry = 0; entry < places.size(); ++entry) {
    DRAGONN_ASSERT(places[entry] < source.size());
    target[entry] = source[places[entry]];
  }
}

void scatter_add(const SparseVector& entries, View<float> values) {
  const auto indices = entries.indices.host();
  const auto added = entries.values.host();
  const auto target = values.host();
  for (std::size_t entry = 0; entry < indices.size(); ++entry) {
    if (indices[entry] == kEmptySlot) continue;
    DRAGONN_ASSERT(indices[entry] < target.size());
    target[indices[entry]] += added[entry];
  }
}

void scatter_zero(View<const std::uint32_t> indices, View<float> values) {
  const auto target = values.host();
  for (const std::uint32_t index : indices.host()) {
    if (index == kEmptySlot) continue;
    DRAGONN_ASSERT(index < target.size());
    target[index] = 0;
  }
}

void copy_entries(const SparseVector& source, SparseVector& target) {
  target.resize_discard(source.size());
  std::ranges::copy(source.indices.host(), target.indices.data());
  std::ranges::copy(source.values.host(), target.values.data());
}

}  // namespace dragonn::kernels
