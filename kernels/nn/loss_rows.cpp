// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/loss_rows.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/nn/loss_rows.h"
#include "kernels/sum_terms-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
  for_each_element(size, [&](auto d, std::size_t at) HWY_ATTR {
    const auto exponential = hn::Exp(d, hn::Sub(hn::LoadU(d, row + at), hn::Set(d, shift)));
    hn::StoreU(hn::Add(hn::Mul(exponential, hn::Set(d, scale)), hn::Set(d, offset)), d, result + at);
  });
}

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

HWY_EXPORT(row_sums);
HWY_EXPORT(exponential_row);
HWY_EXPORT(logistic);

RowSums softmax_row_sums(const float* row, std::size_t size) {
  return HWY_DYNAMIC_DISPATCH(row_sums)(row, size);
}
void softmax_row(const float* row, std::size_t size, float shift, float scale, float offset, float* result) {
  HWY_DYNAMIC_DISPATCH(exponential_row)(row, size, shift, scale, offset, result);
}

double logistic_row(const float* row, std::size_t size, float share, float* result) {
  return HWY_DYNAMIC_DISPATCH(logistic)(row, size, share, result);
}

}  // namespace dragonn::kernels::detail
#endif
