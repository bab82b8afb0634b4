// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gradient/select.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <hwy/highway.h>

#include "kernels/devices.h"
#include "kernels/gradient/gradient_pass_sweep.h"
#include "kernels/gradient/select.h"
#include "kernels/partial_sums-inl.h"
#include "kernels/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The memory for a piece's hits, with its size. Other pieces write behind it.
struct Target {
  std::uint32_t* indices;
  float* values;
  std::size_t capacity;
};

/// Writes the hits among whole vectors of entries from *position on, and advances the target.
template <class D>
HWY_INLINE void filter_vectors(D d, const SparseVector& entries, std::size_t* position, std::size_t end,
                               float threshold, Target* target) {
  const hn::RebindToUnsigned<D> du;
  const auto bound = hn::Set(d, threshold);
  const std::size_t lanes = hn::Lanes(d);
  Target next = *target;
  std::size_t entry = *position;
  for (; entry + lanes <= end; entry += lanes) {
    const auto value = hn::LoadU(d, entries.values.data() + entry);
    const auto index = hn::LoadU(du, entries.indices.data() + entry);
    const auto hits = hn::Ge(hn::Abs(value), bound);
    const auto hit_indices = hn::Compress(index, hn::RebindMask(du, hits));
    const auto hit_values = hn::Compress(value, hits);
    const std::size_t count = hn::CountTrue(d, hits);
    if (HWY_LIKELY(lanes <= next.capacity)) {
      // Lanes behind the hits too: the next hits overwrite them.
      hn::StoreU(hit_indices, du, next.indices);
      hn::StoreU(hit_values, d, next.values);
    } else {
      HWY_ALIGN std::uint32_t last_indices[hn::MaxLanes(d)];
      HWY_ALIGN float last_values[hn::MaxLanes(d)];
      hn::Store(hit_indices, du, last_indices);
      hn::Store(hit_values, d, last_values);
      std::copy_n(last_indices, count, next.indices);
      std::copy_n(last_values, count, next.values);
    }
    next.indices += count;
    next.values += count;
    next.capacity -= count;
  }
  *position = entry;
  *target = next;
}

/// Writes the `count` hits of entries [begin, end) to `indices` and `values`, and nothing behind them.
void FilterChunk(const SparseVector& entries, std::size_t begin, std::size_t end, float threshold, std::size_t count,
                 std::uint32_t* indices, float* values) {
  Target target{indices, values, count};
  std::size_t position = begin;
  filter_vectors(hn::ScalableTag<float>(), entries, &position, end, threshold, &target);
  filter_vectors(hn::CappedTag<float, 1>(), entries, &position, end, threshold, &target);
}

/// Returns how many of the values [begin, end) reach the threshold.
std::size_t CountChunk(const float* values, std::size_t begin, std::size_t end, float threshold) {
  std::size_t count = 0;
  for_each_element(end - begin, [&](auto d, std::size_t i) HWY_ATTR {
    count += hn::CountTrue(d, hn::Ge(hn::Abs(hn::LoadU(d, values + begin + i)), hn::Set(d, threshold)));
  });
  return count;
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace detail {
HWY_EXPORT(FilterChunk);
HWY_EXPORT(CountChunk);
}  // namespace detail

namespace {

constexpr std::size_t kPieceEntries = 32768;

using Counts = std::array<std::size_t, kMaxPieces>;

/// Returns how many values of each piece reach the threshold.
Counts count_pieces(const detail::Chunks& pieces, View<const float> values, float threshold) {
  Counts counts{};
  for_each_chunk(pieces, [&](std::size_t piece) {
    counts[piece] =
        HWY_DYNAMIC_DISPATCH(detail::CountChunk)(values.data(), pieces.begin(piece), pieces.end(piece), threshold);
  });
  return counts;
}

std::size_t count_cpu(const SparseVector& entries, float threshold) {
  const Counts counts = count_pieces({entries.size(), kPieceEntries}, entries.values.view(), threshold);
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

/// Filters in two passes: it counts first, so that every piece's hits are written to their final places.
void filter_cpu(const SparseVector& entries, float threshold, SparseVector& selected) {
  const detail::Chunks pieces(entries.size(), kPieceEntries);
  const Counts counts = count_pieces(pieces, entries.values.view(), threshold);
  Counts places{};
  std::exclusive_scan(counts.begin(), counts.end(), places.begin(), std::size_t{0});
  for_each_chunk(pieces, [&](std::size_t piece) {
    HWY_DYNAMIC_DISPATCH(detail::FilterChunk)
    (entries, pieces.begin(piece), pieces.end(piece), threshold, counts[piece], selected.indices.data() + places[piece],
     selected.values.data() + places[piece]);
  });
  selected.truncate(places.back() + counts.back());
}

bool reserve_for(const SparseVector& entries, float, SparseVector& selected) {
  selected.resize_discard(entries.size());
  return true;
}

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

void scatter_subtract_cpu(const SparseVector& entries, View<float> values) {
  const auto indices = entries.indices.host();
  for (std::size_t entry = 0; entry < indices.size(); ++entry) {
    if (indices[entry] == kEmptySlot) continue;
    DRAGONN_ASSERT(indices[entry] < values.size());
    values.data()[indices[entry]] -= entries.values.data()[entry];
  }
}

void scatter_move_cpu(View<const std::uint32_t> indices, View<float> from, View<float> to) {
  for (const std::uint32_t index : indices.host()) {
    if (index == kEmptySlot) continue;
    DRAGONN_ASSERT(index < from.size() && index < to.size());
    to.data()[index] += std::exchange(from.data()[index], 0.0f);
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

constinit decltype(filter_threshold) filter_threshold("filter_threshold", filter_cpu, reserve_for);
constinit decltype(count_threshold) count_threshold("count_threshold", count_cpu);
constinit decltype(select_threshold_in) select_threshold_in(
    "select_threshold", select_cpu, [](auto values, float, std::size_t begin, std::size_t end, SparseVector&) {
      DRAGONN_CHECK(begin <= end && end <= values.size(), "a selection in [{}, {}) of {} elements", begin, end,
                    values.size());
      return true;
    });
constinit decltype(gather) gather("gather", gather_cpu, [](auto, auto indices, auto out) {
  DRAGONN_CHECK(out.size() == indices.size(), "gather of {} indices into {} values", indices.size(), out.size());
  return !indices.empty();
});
constinit decltype(scatter_add) scatter_add("scatter_add", scatter_add_cpu,
                                            [](const SparseVector& entries, auto) { return !entries.empty(); });
constinit decltype(scatter_subtract) scatter_subtract("scatter_subtract", scatter_subtract_cpu,
                                                      [](const SparseVector& entries, auto) {
                                                        return !entries.empty();
                                                      });
constinit decltype(scatter_move) scatter_move("scatter_move", scatter_move_cpu,
                                              [](auto indices, auto, auto) { return !indices.empty(); });
constinit decltype(scatter_zero) scatter_zero("scatter_zero", scatter_zero_cpu,
                                              [](auto indices, auto) { return !indices.empty(); });
void reserve_selection(SparseVector& selected, std::size_t numel) {
  selected.resize_discard(selected.device().is_cpu() ? numel : numel / kReservedShare + 1);
  detail::use_small_pages(selected.indices);
  detail::use_small_pages(selected.values);
  selected.clear();
}

void copy_entries(const SparseVector& source, SparseVector& target) {
  target.resize_discard(source.size());
  transfer(source.indices.view(), target.indices.view());
  transfer(source.values.view(), target.values.view());
}

}  // namespace dragonn::kernels
#endif  // HWY_ONCE
