// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/threshold_counts.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>

#include <hwy/highway.h>

#include "kernels/gradient_pass-inl.h"
#include "kernels/gradient_pass_chunks.h"
#include "kernels/select.h"
#include "kernels/sweep_count.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Adds to counts[j] the lanes that reach thresholds[j], from the lowest threshold to the first that none reaches.
template <class D>
HWY_INLINE void count_lanes(D d, hn::Vec<D> magnitudes, const float* thresholds, std::size_t size,
                            std::uint64_t* counts) {
  for (std::size_t j = 0; j < size; ++j) {
    const std::size_t reached = hn::CountTrue(d, hn::Ge(magnitudes, hn::Set(d, thresholds[j])));
    if (reached == 0) return;
    counts[j] += reached;
  }
}

/// Counts whole vectors from *position on, four at a time.
template <class D>
HWY_INLINE void count_vectors(D d, const float* values, std::size_t* position, std::size_t end, const float* thresholds,
                              std::size_t size, std::uint64_t* counts) {
  const std::size_t lanes = hn::Lanes(d);
  const hn::RebindToSigned<D> di;
  // As integers, so that a NaN counts as large here and hides no other lane.
  const auto lowest = hn::BitCast(di, hn::Set(d, thresholds[0]));
  std::size_t i = *position;
  for (; i + 4 * lanes <= end; i += 4 * lanes) {
    prefetch_lines(values, i, 4 * lanes);
    const auto a = hn::Abs(hn::LoadU(d, values + i));
    const auto b = hn::Abs(hn::LoadU(d, values + i + lanes));
    const auto c = hn::Abs(hn::LoadU(d, values + i + 2 * lanes));
    const auto e = hn::Abs(hn::LoadU(d, values + i + 3 * lanes));
    const auto largest =
        hn::Max(hn::Max(hn::BitCast(di, a), hn::BitCast(di, b)), hn::Max(hn::BitCast(di, c), hn::BitCast(di, e)));
    if (HWY_LIKELY(hn::AllTrue(di, hn::Lt(largest, lowest)))) continue;
    count_lanes(d, a, thresholds, size, counts);
    count_lanes(d, b, thresholds, size, counts);
    count_lanes(d, c, thresholds, size, counts);
    count_lanes(d, e, thresholds, size, counts);
  }
  for (; i + lanes <= end; i += lanes) {
    count_lanes(d, hn::Abs(hn::LoadU(d, values + i)), thresholds, size, counts);
  }
  *position = i;
}

/// Adds the counts of values[begin, end) to `counts`. The thresholds ascend from a positive one.
void CountChunk(const float* values, std::size_t begin, std::size_t end, const float* thresholds, std::size_t size,
                std::uint64_t* counts) {
  std::size_t position = begin;
  count_vectors(hn::ScalableTag<float>(), values, &position, end, thresholds, size, counts);
  count_vectors(hn::CappedTag<float, 1>(), values, &position, end, thresholds, size, counts);
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace detail {
HWY_EXPORT(CountChunk);
}  // namespace detail

void count_thresholds(View<const float> values, std::span<const float> thresholds, std::span<std::uint64_t> counts) {
  DRAGONN_CHECK(thresholds.size() <= kMostThresholds, "{} thresholds in one pass; at most {}", thresholds.size(),
                kMostThresholds);
  DRAGONN_CHECK(counts.size() == thresholds.size(), "{} thresholds with {} counts", thresholds.size(), counts.size());
  std::ranges::fill(counts, std::uint64_t{0});
  std::array<float, kMostThresholds> positive;
  std::size_t size = 0;
  for (const float threshold : thresholds) {
    if (std::isnan(threshold)) break;
    // The smallest positive number stands for 0: it leaves out the zeros and nothing else.
    positive[size] = std::max(threshold, std::numeric_limits<float>::denorm_min());
    DRAGONN_CHECK(size == 0 || positive[size - 1] <= positive[size], "threshold {} after {}; they must ascend",
                  threshold, positive[size - 1]);
    ++size;
  }
  DRAGONN_CHECK(std::all_of(thresholds.begin() + size, thresholds.end(), [](float t) { return std::isnan(t); }),
                "a threshold after one that is no number");
  if (size == 0) return;
  const float* const data = values.host().data();
  count_swept(values.size());
  const detail::Chunks chunks(values.size(), 32768);
  for_each_chunk(chunks, [&](std::size_t chunk) {
    std::array<std::uint64_t, kMostThresholds> of_chunk{};
    HWY_DYNAMIC_DISPATCH(detail::CountChunk)
    (data, chunks.begin(chunk), chunks.end(chunk), positive.data(), size, of_chunk.data());
    for (std::size_t j = 0; j < size; ++j) {
      std::atomic_ref(counts[j]).fetch_add(of_chunk[j], std::memory_order_relaxed);
    }
  });
}

}  // namespace dragonn::kernels
#endif  // HWY_ONCE
