// SPDX-License-Identifier: MIT
/// Accumulation of an element: the part that the vector loops of all gradient passes share. Compiled once per
/// instruction set.

// A guard that lets Highway include this file once for every instruction set.
#if defined(DRAGONN_KERNELS_GRADIENT_PASS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DRAGONN_KERNELS_GRADIENT_PASS_INL_H_
#undef DRAGONN_KERNELS_GRADIENT_PASS_INL_H_
#else
#define DRAGONN_KERNELS_GRADIENT_PASS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/gradient/gradient_pass_simd.h"
#include "kernels/gradient/magnitude.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int32_t kInfinityBits = 0x7f800000;

// Multiplications and additions stay apart on every instruction set: fused ones would round differently on machines
// that have them.

/// Returns acc of the lanes from element i, and stores it (with the momentum) if kStore.
template <AccumulateKind kKind, bool kStore, class D>
HWY_INLINE hn::Vec<D> accumulate(D d, const AccumulateJob& job, std::size_t i) {
  const auto raw = hn::LoadU(d, job.gradient + i);
  if constexpr (kKind == AccumulateKind::kExamine) return raw;
  const auto gradient = hn::Mul(hn::Set(d, job.scale), raw);
  const auto factor = hn::Set(d, job.factor);
  auto acc = gradient;
  if constexpr (kKind == AccumulateKind::kResidual) {
    acc = hn::Add(hn::Mul(factor, hn::LoadU(d, job.acc + i)), gradient);
  } else if constexpr (kKind == AccumulateKind::kHeavyBall || kKind == AccumulateKind::kNesterov) {
    const auto old = hn::LoadU(d, job.momentum + i);
    const auto velocity = hn::LoadU(d, job.acc + i);
    auto momentum = old;
    if constexpr (kKind == AccumulateKind::kHeavyBall) {
      momentum = hn::Add(hn::Mul(factor, old), gradient);
      acc = hn::Add(velocity, momentum);
    } else {
      momentum = hn::Mul(factor, hn::Add(old, gradient));
      acc = hn::Add(hn::Add(velocity, momentum), gradient);
    }
    if constexpr (kStore) hn::StoreU(momentum, d, job.momentum + i);
  }
  if constexpr (kStore) hn::StoreU(acc, d, job.acc + i);
  return acc;
}

/// The distance of prefetches ahead of the arithmetic: 8 KiB. Hardware prefetchers alone leave a quarter of the
/// bandwidth unused.
constexpr std::size_t kPrefetchElements = 2048;

/// Prefetches the cache lines of the `count` elements that are kPrefetchElements ahead of element i. They may lie
/// beyond the end: a prefetch never faults.
HWY_INLINE void prefetch_lines(const float* values, std::size_t i, std::size_t count) {
  for (std::size_t element = 0; element < count; element += kLineElements) {
    hwy::Prefetch(values + i + kPrefetchElements + element);
  }
}

/// Prefetches all that accumulate() will load.
template <AccumulateKind kKind>
HWY_INLINE void prefetch(const AccumulateJob& job, std::size_t i, std::size_t count) {
  constexpr bool kHasMomentum = kKind == AccumulateKind::kHeavyBall || kKind == AccumulateKind::kNesterov;
  prefetch_lines(job.gradient, i, count);
  if constexpr (kHasMomentum || kKind == AccumulateKind::kResidual) prefetch_lines(job.acc, i, count);
  if constexpr (kHasMomentum) prefetch_lines(job.momentum, i, count);
}

/// Tracks the largest magnitude by its bits: a NaN counts as larger than an infinity, and both show.
template <class D>
class LargestMagnitude {
 public:
  HWY_INLINE explicit LargestMagnitude(D) : largest_(hn::Zero(kInts)) {}
  HWY_INLINE void see(hn::Vec<D> values) { largest_ = hn::Max(largest_, hn::BitCast(kInts, hn::Abs(values))); }
  HWY_INLINE std::int32_t bits() const { return hn::GetLane(hn::MaxOfLanes(kInts, largest_)); }
  HWY_INLINE bool non_finite() const { return bits() >= kInfinityBits; }

 private:
  static constexpr hn::RebindToSigned<D> kInts{};
  hn::Vec<hn::RebindToSigned<D>> largest_;
};

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#ifndef DRAGONN_KIND_TABLE
// One instance per AccumulateKind, in its order.
#define DRAGONN_KIND_TABLE(function)                                                                           \
  {                                                                                                            \
    function<AccumulateKind::kExamine>, function<AccumulateKind::kScale>, function<AccumulateKind::kResidual>, \
        function<AccumulateKind::kHeavyBall>, function<AccumulateKind::kNesterov>                              \
  }
#endif

#endif  // once per instruction set
