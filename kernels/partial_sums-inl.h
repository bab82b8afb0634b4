// SPDX-License-Identifier: MIT
/// Partial sums: sums in double whose bits do not depend on the vector width; and maps over elements. Compiled once per
/// instruction set.

// A guard that lets Highway include this file once for every instruction set.
#if defined(DRAGONN_KERNELS_PARTIAL_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DRAGONN_KERNELS_PARTIAL_SUMS_INL_H_
#undef DRAGONN_KERNELS_PARTIAL_SUMS_INL_H_
#else
#define DRAGONN_KERNELS_PARTIAL_SUMS_INL_H_
#endif

#include <cstddef>
#include <numeric>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The number of partial sums: element i of a piece adds to the sum i % kSums on every instruction set, and the sums
/// are added in order.
constexpr std::size_t kSums = 16;

/// The partial sums of one kind, in as many vectors as they need.
class PartialSums {
 public:
  using Tag = hn::CappedTag<double, kSums / 2>;
  static constexpr std::size_t kLanes = hn::MaxLanes(Tag());
  static constexpr std::size_t kVectors = kSums / kLanes;

  HWY_INLINE PartialSums() {
    for (auto& sums : sums_) sums = hn::Zero(Tag());
  }
  HWY_INLINE void add(std::size_t vector, hn::Vec<Tag> values) { sums_[vector] = hn::Add(sums_[vector], values); }
  /// Adds the squares of values that are floats. Their products are exact, so a fused multiply-add gives the bits of
  /// separate operations on all instruction sets.
  HWY_INLINE void add_squares_of_floats(std::size_t vector, hn::Vec<Tag> values) {
    sums_[vector] = hn::MulAdd(values, values, sums_[vector]);
  }
  HWY_INLINE void store(double* places) const {
    for (std::size_t vector = 0; vector < kVectors; ++vector) {
      hn::StoreU(sums_[vector], Tag(), places + vector * kLanes);
    }
  }

 private:
  hn::Vec<Tag> sums_[kVectors];
};

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
