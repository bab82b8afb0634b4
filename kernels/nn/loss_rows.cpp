// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/loss_rows.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>
#include <cmath>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/nn/loss_rows.h"
#include "kernels/partial_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

float largest_in(const float* row, std::size_t size) {
  const hn::ScalableTag<float> whole;
  float largest = row[0];
  std::size_t i = 0;
  if (size >= hn::Lanes(whole)) {
    auto max = hn::LoadU(whole, row);
    for (i = hn::Lanes(whole); i + hn::Lanes(whole) <= size; i += hn::Lanes(whole))
      max = hn::Max(max, hn::LoadU(whole, row + i));
    largest = hn::GetLane(hn::MaxOfLanes(whole, max));
  }
  for (; i < size; ++i) largest = std::max(largest, row[i]);
  return largest;
}

RowSums row_sums(const float* row, std::size_t size, float largest, float* exponentials) {
  RowSums sums;
  const auto distance = [&](auto d, std::size_t at)
                            HWY_ATTR { return hn::Sub(hn::LoadU(d, row + at), hn::Set(d, largest)); };
  sums.distances = sum_terms(size, distance);
  if (exponentials == nullptr) {
    sums.exponentials = sum_terms(size, [&](auto d, std::size_t at) HWY_ATTR { return hn::Exp(d, distance(d, at)); });
    return sums;
  }
  for_each_element(
      size, [&](auto d, std::size_t at) HWY_ATTR { hn::StoreU(hn::Exp(d, distance(d, at)), d, exponentials + at); });
  sums.exponentials = sum_terms(size, [&](auto d, std::size_t at) HWY_ATTR { return hn::LoadU(d, exponentials + at); });
  return sums;
}

bool softmax(float* row, std::size_t size) {
  const float largest = largest_in(row, size);
  for_each_element(size, [&](auto d, std::size_t at) HWY_ATTR {
    const auto distance = hn::Sub(hn::LoadU(d, row + at), hn::Set(d, largest));
    // The exponential of a NaN is 0, which would hide it.
    hn::StoreU(hn::IfThenElse(hn::IsFinite(distance), hn::Exp(d, distance), hn::NaN(d)), d, row + at);
  });
  const double sum = sum_terms(size, [&](auto d, std::size_t at) HWY_ATTR { return hn::LoadU(d, row + at); });
  if (!std::isfinite(sum)) return false;
  const auto factor = static_cast<float>(1 / sum);
  for_each_element(size, [&](auto d, std::size_t at) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + at), hn::Set(d, factor)), d, row + at);
  });
  return true;
}

void scale(float* row, std::size_t size, float factor, float offset) {
  for_each_element(size, [&](auto d, std::size_t at) HWY_ATTR {
    hn::StoreU(hn::Add(hn::Mul(hn::LoadU(d, row + at), hn::Set(d, factor)), hn::Set(d, offset)), d, row + at);
  });
}

void exponential(const float* row, std::size_t size, float shift, float factor, float* result) {
  for_each_element(size, [&](auto d, std::size_t at) HWY_ATTR {
    const auto value = hn::Exp(d, hn::Sub(hn::LoadU(d, row + at), hn::Set(d, shift)));
    hn::StoreU(hn::Mul(value, hn::Set(d, factor)), d, result + at);
  });
}

void softmax_backward(const float* weights, std::size_t size, float factor, float* gradient) {
  const auto mean = static_cast<float>(sum_terms(size, [&](auto d, std::size_t at) HWY_ATTR {
    return hn::Mul(hn::LoadU(d, weights + at), hn::LoadU(d, gradient + at));
  }));
  for_each_element(size, [&](auto d, std::size_t at) HWY_ATTR {
    const auto distance = hn::Sub(hn::LoadU(d, gradient + at), hn::Set(d, mean));
    hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, weights + at), distance), hn::Set(d, factor)), d, gradient + at);
  });
}

/// Returns the sum of log(1 + e_i) for 0 <= e_i <= 1: a logarithm for a product that cannot overflow a double.
double sum_of_log1p(const float* exponentials, std::size_t size) {
  constexpr std::size_t kFactors = 512;
  using Wide = PartialSums::Tag;
  const Wide d;
  const hn::Rebind<float, Wide> floats;
  const auto one = hn::Set(d, 1.0);
  double sum = 0;
  double places[kSums];
  std::size_t i = 0;
  while (i + kSums <= size) {
    hn::Vec<Wide> products[PartialSums::kVectors];
    for (auto& product : products) product = one;
    const std::size_t end = std::min(size, i + kSums * kFactors);
    for (; i + kSums <= end; i += kSums)
      for (std::size_t v = 0; v < PartialSums::kVectors; ++v)
        products[v] = hn::Mul(
            products[v], hn::Add(one, hn::PromoteTo(d, hn::LoadU(floats, exponentials + i + v * PartialSums::kLanes))));
    for (std::size_t v = 0; v < PartialSums::kVectors; ++v)
      hn::StoreU(products[v], d, places + v * PartialSums::kLanes);
    for (const double product : places) sum += std::log(product);
  }
  for (; i < size; ++i) sum += std::log1p(static_cast<double>(exponentials[i]));
  return sum;
}

double logistic(const float* row, std::size_t size, float share, float* result) {
  // As max(0, x) + log(1 + exp(-|x|)), which does not overflow. In this order x86's maximum keeps a NaN.
  constexpr std::size_t kPiece = 2048;  // exponentials of a piece stay in the nearest cache
  float exponentials[kPiece];
  double losses =
      sum_terms(size, [&](auto d, std::size_t i) HWY_ATTR { return hn::Max(hn::Zero(d), hn::LoadU(d, row + i)); });
  for (std::size_t begin = 0; begin < size; begin += kPiece) {
    const std::size_t count = std::min(kPiece, size - begin);
    const float* from = row + begin;
    for_each_element(count, [&](auto d, std::size_t i) HWY_ATTR {
      hn::StoreU(hn::Exp(d, hn::Neg(hn::Abs(hn::LoadU(d, from + i)))), d, exponentials + i);
    });
    losses += sum_of_log1p(exponentials, count);
    if (result == nullptr) continue;
    for_each_element(count, [&](auto d, std::size_t i) HWY_ATTR {
      const auto exponential = hn::LoadU(d, exponentials + i);
      // The sigmoid is 1 / (1 + exp(-x)), or, with numerator and denominator times exp(x), exp(x) / (1 + exp(x)).
      const auto numerator = hn::IfThenElse(hn::Lt(hn::LoadU(d, from + i), hn::Zero(d)), exponential, hn::Set(d, 1.0f));
      const auto sigmoid = hn::Div(numerator, hn::Add(hn::Set(d, 1.0f), exponential));
      hn::StoreU(hn::Mul(hn::Set(d, share), sigmoid), d, result + begin + i);
    });
  }
  return losses;
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels::detail {

HWY_EXPORT(largest_in);
HWY_EXPORT(row_sums);
HWY_EXPORT(softmax);
HWY_EXPORT(scale);
HWY_EXPORT(exponential);
HWY_EXPORT(softmax_backward);
HWY_EXPORT(logistic);

float largest_in_row(const float* row, std::size_t size) {
  return HWY_DYNAMIC_DISPATCH(largest_in)(row, size);
}
bool is_first_largest(const float* row, std::size_t place, float largest) {
  return row[place] == largest && std::find(row, row + place, largest) == row + place;
}
RowSums softmax_row_sums(const float* row, std::size_t size, float largest, float* exponentials) {
  return HWY_DYNAMIC_DISPATCH(row_sums)(row, size, largest, exponentials);
}
bool softmax_row(float* row, std::size_t size) {
  return HWY_DYNAMIC_DISPATCH(softmax)(row, size);
}
void scale_row(float* row, std::size_t size, float factor, float offset) {
  HWY_DYNAMIC_DISPATCH(scale)(row, size, factor, offset);
}
void exponential_row(const float* row, std::size_t size, float shift, float factor, float* result) {
  HWY_DYNAMIC_DISPATCH(exponential)(row, size, shift, factor, result);
}
void softmax_backward_row(const float* weights, std::size_t size, float factor, float* gradient) {
  HWY_DYNAMIC_DISPATCH(softmax_backward)(weights, size, factor, gradient);
}
double logistic_row(const float* row, std::size_t size, float share, float* result) {
  return HWY_DYNAMIC_DISPATCH(logistic)(row, size, share, result);
}

}  // namespace dragonn::kernels::detail
#endif
