// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gradient/exceedance_simd.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <cmath>
#include <limits>
#include <numbers>

#include <hwy/highway.h>

#include "kernels/gradient/exceedance_simd.h"
#include "kernels/partial_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = PartialSums::Tag;
constexpr std::size_t kLanes = PartialSums::kLanes;
constexpr std::size_t kVectors = PartialSums::kVectors;

void AddExceedancesChunk(const float* values, std::size_t begin, std::size_t end, float threshold, Exceedances* total) {
  const Wide d;
  const hn::Rebind<float, Wide> df;
  const auto bound = hn::Set(df, threshold);
  const auto wide_bound = hn::Set(d, static_cast<double>(threshold));
  PartialSums excesses, squares;
  auto smallest = hn::Set(df, total->smallest);
  std::size_t count = 0, i = begin;
  for (; i + kSums <= end; i += kSums) {
    for (std::size_t vector = 0; vector < kVectors; ++vector) {
      const auto magnitude = hn::Abs(hn::LoadU(df, values + i + vector * kLanes));
      const auto hits = hn::Gt(magnitude, bound);
      count += hn::CountTrue(df, hits);
      smallest = hn::IfThenElse(hits, hn::Min(smallest, magnitude), smallest);
      // Values that do not exceed the threshold add 0.
      const auto excess = hn::Sub(hn::PromoteTo(d, hn::IfThenElse(hits, magnitude, bound)), wide_bound);
      excesses.add(vector, excess);
      squares.add(vector, hn::Mul(excess, excess));
    }
  }
  double sums[2][kSums];
  excesses.store(sums[0]);
  squares.store(sums[1]);
  total->count += count;
  total->smallest = hn::GetLane(hn::MinOfLanes(df, smallest));
  for (std::size_t place = 0; i < end; ++i, ++place) {
    const float magnitude = values[i] < 0 ? -values[i] : values[i];
    if (!(magnitude > threshold)) continue;
    const double excess = static_cast<double>(magnitude) - static_cast<double>(threshold);
    sums[0][place] += excess;
    sums[1][place] += excess * excess;
    if (magnitude < total->smallest) total->smallest = magnitude;
    ++total->count;
  }
  for (std::size_t place = 0; place < kSums; ++place) {
    total->sum += sums[0][place];
    total->sum_squares += sums[1][place];
  }
}

/// Partial products with the places of PartialSums, as mantissa * 2^exponent, so that one logarithm per product
/// suffices.
class PartialProducts {
 public:
  /// The number of factors in [1e-18, 2] that take a mantissa in [1, 2) neither to 0 nor to infinity.
  static constexpr std::size_t kMostFactors = 16;

  HWY_INLINE PartialProducts() {
    for (std::size_t vector = 0; vector < kVectors; ++vector) {
      mantissas_[vector] = hn::Set(Wide(), 1.0);
      exponents_[vector] = hn::Zero(kInts);
    }
  }
  HWY_INLINE void multiply(std::size_t vector, hn::Vec<Wide> factors) {
    mantissas_[vector] = hn::Mul(mantissas_[vector], factors);
  }
  /// Moves the powers of two out of the mantissas, at the latest after kMostFactors factors each.
  HWY_INLINE void normalize() {
    const auto bias = hn::Set(kInts, kBias);
    for (std::size_t vector = 0; vector < kVectors; ++vector) {
      const auto bits = hn::BitCast(kInts, mantissas_[vector]);
      exponents_[vector] = hn::Add(exponents_[vector], hn::Sub(hn::ShiftRight<kFractionBits>(bits), bias));
      const auto fraction = hn::And(bits, hn::Set(kInts, (std::int64_t{1} << kFractionBits) - 1));
      mantissas_[vector] = hn::BitCast(Wide(), hn::Or(fraction, hn::ShiftLeft<kFractionBits>(bias)));
    }
  }
  HWY_INLINE void store(double* mantissas, std::int64_t* exponents) const {
    for (std::size_t vector = 0; vector < kVectors; ++vector) {
      hn::StoreU(mantissas_[vector], Wide(), mantissas + vector * kLanes);
      hn::StoreU(exponents_[vector], kInts, exponents + vector * kLanes);
    }
  }

 private:
  static constexpr hn::RebindToSigned<Wide> kInts{};
  static constexpr int kFractionBits = 52;
  static constexpr std::int64_t kBias = 1023;
  hn::Vec<Wide> mantissas_[kVectors];
  hn::Vec<hn::RebindToSigned<Wide>> exponents_[kVectors];
};

double SumMagnitudeLogsChunk(const float* values, std::size_t begin, std::size_t end, double scale, double offset) {
  const Wide d;
  const hn::Rebind<float, Wide> df;
  const auto one = hn::Set(d, 1.0);
  PartialProducts products;
  std::size_t i = begin, factors = 0;
  for (; i + kSums <= end; i += kSums) {
    for (std::size_t vector = 0; vector < kVectors; ++vector) {
      const auto magnitude = hn::PromoteTo(d, hn::Abs(hn::LoadU(df, values + i + vector * kLanes)));
      const auto factor = hn::Add(hn::Mul(hn::Set(d, scale), magnitude), hn::Set(d, offset));
      products.multiply(vector, hn::IfThenElse(hn::Eq(factor, factor), factor, one));
    }
    // The bound is one short: the remaining elements add one.
    if (++factors < PartialProducts::kMostFactors - 1) continue;
    products.normalize();
    factors = 0;
  }
  double mantissas[kSums];
  std::int64_t exponents[kSums];
  products.store(mantissas, exponents);
  for (std::size_t place = 0; i < end; ++i, ++place) {
    const double factor = scale * std::fabs(static_cast<double>(values[i])) + offset;
    if (factor == factor) mantissas[place] *= factor;
  }
  double sum = 0;
  for (std::size_t place = 0; place < kSums; ++place) {
    sum += std::log(mantissas[place]) + std::numbers::ln2 * static_cast<double>(exponents[place]);
  }
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels::detail {

HWY_EXPORT(AddExceedancesChunk);
HWY_EXPORT(SumMagnitudeLogsChunk);

void add_exceedances_chunk(const float* values, std::size_t begin, std::size_t end, float threshold,
                           Exceedances* total) {
  HWY_DYNAMIC_DISPATCH(AddExceedancesChunk)(values, begin, end, threshold, total);
}

double sum_magnitude_logs_chunk(const float* values, std::size_t begin, std::size_t end, double scale, double offset) {
  return HWY_DYNAMIC_DISPATCH(SumMagnitudeLogsChunk)(values, begin, end, scale, offset);
}

}  // namespace dragonn::kernels::detail
#endif  // HWY_ONCE
