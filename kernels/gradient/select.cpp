// SPDX-License-Identifier: MIT
#include "kernels/gradient/select.h"

#include "kernels/devices.h"
#include "kernels/gradient/gradient_pass_sweep.h"

namespace dragonn::kernels {
namespace {

void select_cpu(View<const float> values, float threshold, std::size_t begin, std::size_t end, SparseVector& selected) {
  detail::sweep_select({.gradient = values.data()}, {begin, end}, {begin, end}, threshold, selected);
}

void gather_cpu(View<const float> values, View<const std::uint32_t> indices, View<float> out) {
  for (std::size_t entry = 0; entry < indices.size(); ++entry) {
    DRAGONN_ASSERT(indices.data()[entry] < values.size());
    out.data()[entry] = values.data()[indices.data()[entry]];
  }
}

void scatter_add_cpu(const SparseVector& entries, View<float> values) {
  const auto indices = entries.indices.host();
  for (std::size_t entry = 0; entry < indices.size(); ++entry) {
    if (indices[entry] == kEmptySlot) continue;
    DRAGONN_ASSERT(indices[entry] < values.size());
    values.data()[indices[entry]] += entries.values.data()[entry];
  }
}

void scatter_zero_cpu(View<const std::uint32_t> indices, View<float> values) {
  for (const std::uint32_t index : indices.host()) {
    if (index == kEmptySlot) continue;
    DRAGONN_ASSERT(index < values.size());
    values.data()[index] = 0;
  }
}

}  // namespace

constinit decltype(select_threshold_rows) select_threshold_rows("select_threshold", select_cpu);
constinit decltype(gather) gather("gather", gather_cpu, [](auto, auto indices, auto out) {
  DRAGONN_CHECK(out.size() == indices.size(), "gather of {} indices into {} values", indices.size(), out.size());
  return !indices.empty();
});
constinit decltype(scatter_add) scatter_add("scatter_add", scatter_add_cpu,
                                            [](const SparseVector& entries, auto) { return !entries.empty(); });
constinit decltype(scatter_zero) scatter_zero("scatter_zero", scatter_zero_cpu,
                                              [](auto indices, auto) { return !indices.empty(); });
void reserve_selection(SparseVector& selected, std::size_t numel) {
  selected.resize_discard(selected.device().is_cpu() ? numel : numel / kReservedShare + 1);
  selected.clear();
}

void select_threshold(View<const float> values, float threshold, std::size_t begin, std::size_t end,
                      SparseVector& selected) {
  DRAGONN_CHECK(begin <= end && end <= values.size(), "a selection in [{}, {}) of {} elements", begin, end,
                values.size());
  select_threshold_rows(values, threshold, begin, end, selected);
}

void select_threshold(View<const float> values, float threshold, SparseVector& selected) {
  select_threshold(values, threshold, 0, values.size(), selected);
}

void copy_entries(const SparseVector& source, SparseVector& target) {
  target.resize_discard(source.size());
  transfer(source.indices.view(), target.indices.view());
  transfer(source.values.view(), target.values.view());
}

}  // namespace dragonn::kernels
