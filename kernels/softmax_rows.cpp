// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax_rows.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>
#include <numeric>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/partial_sums-inl.h"
#include "kernels/softmax_rows.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = PartialSums::Tag;
using Floats = hn::Rebind<float, Wide>;

/// Sums of `size` floats in double: element i adds to sum i % kSums.
template <class Term>
HWY_INLINE double sum_terms(std::size_t size, const Term& term) {
  PartialSums sums;
  std::size_t i = 0;
  for (; i + kSums <= size; i += kSums)
    for (std::size_t v = 0; v < PartialSums::kVectors; ++v)
      sums.add(v, hn::PromoteTo(Wide(), term(Floats(), i + v * PartialSums::kLanes)));
  double places[kSums];
  sums.store(places);
  const hn::CappedTag<float, 1> single;
  for (std::size_t place = 0; i < size; ++i, ++place) places[place] += hn::GetLane(term(single, i));
  return std::accumulate(places, places + kSums, 0.0);
}

RowSums row_sums(const float* row, std::size_t size) {
  const hn::ScalableTag<float> whole;
  float largest = row[0];
  std::size_t i = 0;
  if (size >= hn::Lanes(whole)) {
    auto most = hn::LoadU(whole, row);
    for (i = hn::Lanes(whole); i + hn::Lanes(whole) <= size; i += hn::Lanes(whole))
      most = hn::Max(most, hn::LoadU(whole, row + i));
    largest = hn::GetLane(hn::MaxOfLanes(whole, most));
  }
  for (; i < size; ++i) largest = std::max(largest, row[i]);
  const auto distance = [&](auto d, std::size_t at)
                            HWY_ATTR { return hn::Sub(hn::LoadU(d, row + at), hn::Set(d, largest)); };
  return {largest, sum_terms(size, [&](auto d, std::size_t at) HWY_ATTR { return hn::Exp(d, distance(d, at)); }),
          sum_terms(size, distance)};
}

void exponential_row(const float* row, std::size_t size, float shift, float scale, float offset, float* result) {
  const auto map = [&](auto d, std::size_t at) HWY_ATTR {
    const auto exponential = hn::Exp(d, hn::Sub(hn::LoadU(d, row + at), hn::Set(d, shift)));
    hn::StoreU(hn::Add(hn::Mul(exponential, hn::Set(d, scale)), hn::Set(d, offset)), d, result + at);
  };
  const hn::ScalableTag<float> whole;
  const hn::CappedTag<float, 1> single;
  std::size_t i = 0;
  for (; i + hn::Lanes(whole) <= size; i += hn::Lanes(whole)) map(whole, i);
  for (; i < size; ++i) map(single, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels::detail {

HWY_EXPORT(row_sums);
HWY_EXPORT(exponential_row);

RowSums softmax_row_sums(const float* row, std::size_t size) {
  return HWY_DYNAMIC_DISPATCH(row_sums)(row, size);
}
void softmax_row(const float* row, std::size_t size, float shift, float scale, float offset, float* result) {
  HWY_DYNAMIC_DISPATCH(exponential_row)(row, size, shift, scale, offset, result);
}

}  // namespace dragonn::kernels::detail
#endif
