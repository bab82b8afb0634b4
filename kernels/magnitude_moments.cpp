// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/magnitude_moments.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>
#include <array>

#include <hwy/highway.h>

#include "kernels/gradient_pass_chunks.h"
#include "kernels/magnitude.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Partial sums: element i adds to the sum i % kSums on every instruction set, and the sums are added in order, so that
/// the vector width does not show.
constexpr std::size_t kSums = 16;

/// Moments of values[begin, end).
Moments ChunkMoments(const float* values, std::size_t begin, std::size_t end) {
  const hn::CappedTag<double, kSums / 2> d;
  const hn::Rebind<float, decltype(d)> df;
  using Sums = decltype(hn::Zero(d));
  constexpr std::size_t kLanes = hn::MaxLanes(decltype(d)());
  constexpr std::size_t kVectors = kSums / kLanes;
  Sums magnitudes[kVectors], squares[kVectors];
  auto largest = hn::Zero(df);
  for (std::size_t v = 0; v < kVectors; ++v) magnitudes[v] = squares[v] = hn::Zero(d);
  std::size_t i = begin;
  for (; i + kSums <= end; i += kSums) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto magnitude = hn::Abs(hn::LoadU(df, values + i + v * kLanes));
      const auto wide = hn::PromoteTo(d, magnitude);
      largest = hn::Max(largest, magnitude);
      magnitudes[v] = hn::Add(magnitudes[v], wide);
      squares[v] = hn::Add(squares[v], hn::Mul(wide, wide));
    }
  }
  alignas(64) double sums[2][kSums];
  for (std::size_t v = 0; v < kVectors; ++v) {
    hn::StoreU(magnitudes[v], d, sums[0] + v * kLanes);
    hn::StoreU(squares[v], d, sums[1] + v * kLanes);
  }
  Moments moments{.largest = hn::GetLane(hn::MaxOfLanes(df, largest))};
  for (std::size_t place = 0; i < end; ++i, ++place) {
    const float magnitude = values[i] < 0 ? -values[i] : values[i];
    sums[0][place] += magnitude;
    sums[1][place] += static_cast<double>(magnitude) * magnitude;
    if (magnitude > moments.largest) moments.largest = magnitude;
  }
  for (std::size_t place = 0; place < kSums; ++place) {
    moments.sum += sums[0][place];
    moments.sum_squares += sums[1][place];
  }
  return moments;
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace detail {
HWY_EXPORT(ChunkMoments);
}  // namespace detail

Moments magnitude_moments(View<const float> values) {
  const float* const data = values.host().data();
  const detail::Chunks chunks(values.size(), 32768);
  std::array<Moments, detail::kMaxChunks> parts{};
  for_each_chunk(chunks, [&](std::size_t chunk) {
    parts[chunk] = HWY_DYNAMIC_DISPATCH(detail::ChunkMoments)(data, chunks.begin(chunk), chunks.end(chunk));
  });
  Moments total;
  for (std::size_t chunk = 0; chunk < chunks.count(); ++chunk) {
    total.sum += parts[chunk].sum;
    total.sum_squares += parts[chunk].sum_squares;
    total.largest = std::max(total.largest, parts[chunk].largest);
  }
  return total;
}

}  // namespace dragonn::kernels
#endif  // HWY_ONCE
