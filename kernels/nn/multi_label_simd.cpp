// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/multi_label_simd.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/nn/multi_label.h"
#include "kernels/sum_terms-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

double logistic(const float* row, std::size_t size, float share, float* result) {
  // The form log(1 + exp(x)) = max(0, x) + log(1 + exp(-|x|)) overflows nowhere. In this order x86's maximum keeps a
  // NaN.
  const double sum = sum_terms(size, [&](auto d, std::size_t i) HWY_ATTR {
    const auto x = hn::LoadU(d, row + i);
    return hn::Add(hn::Max(hn::Zero(d), x), hn::Log1p(d, hn::Exp(d, hn::Neg(hn::Abs(x)))));
  });
  if (result == nullptr) return sum;
  for_each_element(size, [&](auto d, std::size_t i) HWY_ATTR {
    const auto exponential = hn::Exp(d, hn::Neg(hn::LoadU(d, row + i)));
    hn::StoreU(hn::Div(hn::Set(d, share), hn::Add(hn::Set(d, 1.0f), exponential)), d, result + i);
  });
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels::detail {

HWY_EXPORT(logistic);

double logistic_row(const float* row, std::size_t size, float share, float* result) {
  return HWY_DYNAMIC_DISPATCH(logistic)(row, size, share, result);
}

}  // namespace dragonn::kernels::detail
#endif
