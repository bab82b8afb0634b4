// SPDX-License-Identifier: MIT
/// Sums of float terms in double, and maps over elements. Compiled once per instruction set.

// A guard that lets Highway include this file once for every instruction set.
#if defined(DRAGONN_KERNELS_SUM_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DRAGONN_KERNELS_SUM_TERMS_INL_H_
#undef DRAGONN_KERNELS_SUM_TERMS_INL_H_
#else
#define DRAGONN_KERNELS_SUM_TERMS_INL_H_
#endif

#include <cstddef>
#include <numeric>

#include <hwy/highway.h>

#include "kernels/partial_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Returns the sum in double of term(d, i), a vector of floats for the elements from i on; bits as PartialSums
/// promises.
template <class Term>
HWY_INLINE double sum_terms(std::size_t size, const Term& term) {
  using Wide = PartialSums::Tag;
  const hn::Rebind<float, Wide> floats;
  PartialSums sums;
  std::size_t i = 0;
  for (; i + kSums <= size; i += kSums)
    for (std::size_t v = 0; v < PartialSums::kVectors; ++v)
      sums.add(v, hn::PromoteTo(Wide(), term(floats, i + v * PartialSums::kLanes)));
  double places[kSums];
  sums.store(places);
  const hn::CappedTag<float, 1> single;
  for (std::size_t place = 0; i < size; ++i, ++place) places[place] += hn::GetLane(term(single, i));
  return std::accumulate(places, places + kSums, 0.0);
}

/// Calls body(d, i) for all elements: whole vectors, then single elements.
template <class Body>
HWY_INLINE void for_each_element(std::size_t size, const Body& body) {
  const hn::ScalableTag<float> whole;
  const hn::CappedTag<float, 1> single;
  std::size_t i = 0;
  for (; i + hn::Lanes(whole) <= size; i += hn::Lanes(whole)) body(whole, i);
  for (; i < size; ++i) body(single, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#endif  // once per instruction set
