// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE \
  "kernels/gradient/gradient_pass_moments.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <bit>

#include <hwy/highway.h>

#include "kernels/gradient/gradient_pass-inl.h"
#include "kernels/gradient/gradient_pass_simd.h"
#include "kernels/partial_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <AccumulateKind kKind>
Moments moments_kind(const AccumulateJob job, std::size_t begin, std::size_t end) {
  const PartialSums::Tag d;
  const hn::Rebind<float, PartialSums::Tag> df;
  PartialSums magnitudes, squares, values;
  LargestMagnitude<decltype(df)> largest(df);
  std::size_t i = begin;
  for (; i + kSums <= end; i += kSums) {
    prefetch<kKind>(job, i, kSums);
    for (std::size_t vector = 0; vector < PartialSums::kVectors; ++vector) {
      const auto acc = accumulate<kKind, true>(df, job, i + vector * PartialSums::kLanes);
      largest.see(acc);
      const auto wide = hn::PromoteTo(d, acc);
      magnitudes.add(vector, hn::Abs(wide));
      squares.add_squares_of_floats(vector, wide);
      values.add(vector, wide);
    }
  }
  double sums[3][kSums];
  magnitudes.store(sums[0]);
  squares.store(sums[1]);
  values.store(sums[2]);
  const hn::CappedTag<float, 1> one;
  LargestMagnitude<decltype(one)> largest_of_rest(one);
  for (std::size_t place = 0; i < end; ++i, ++place) {
    const auto acc = accumulate<kKind, true>(one, job, i);
    largest_of_rest.see(acc);
    const double wide = hn::GetLane(acc);
    sums[0][place] += wide < 0 ? -wide : wide;
    sums[1][place] += wide * wide;
    sums[2][place] += wide;
  }
  Moments moments{.largest = std::bit_cast<float>(HWY_MAX(largest.bits(), largest_of_rest.bits()))};
  for (std::size_t place = 0; place < kSums; ++place) {
    moments.sum += sums[0][place];
    moments.sum_squares += sums[1][place];
    moments.signed_sum += sums[2][place];
  }
  return moments;
}

Moments MomentsChunk(const AccumulateJob& job, std::size_t begin, std::size_t end) {
  constexpr decltype(&moments_kind<AccumulateKind::kExamine>) kTable[] = DRAGONN_KIND_TABLE(moments_kind);
  return kTable[static_cast<std::size_t>(job.kind)](job, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels::detail {

HWY_EXPORT(MomentsChunk);

Moments accumulate_moments_chunk(const AccumulateJob& job, std::size_t begin, std::size_t end) {
  return HWY_DYNAMIC_DISPATCH(MomentsChunk)(job, begin, end);
}

}  // namespace dragonn::kernels::detail
#endif  // HWY_ONCE
