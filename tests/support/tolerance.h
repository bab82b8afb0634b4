// SPDX-License-Identifier: MIT
/// Tolerances of sums of products, derived from the formats in which a device multiplies and adds.
#pragma once

#include <cstddef>

#include "kernels/device_math.h"

namespace dragonn::test {

/// The largest relative error of rounding to the nearest number of a format: half a unit in the last of its bits.
inline constexpr double kFloat32Roundoff = 0x1p-24, kTf32Roundoff = 0x1p-11, kBf16Roundoff = 0x1p-8;

/// Returns the largest relative error of one factor of a product. TF32 may be cut off instead of rounded, by twice as
/// much: multipliers that are given float32 ignore the last bits.
inline double factor_error(kernels::DeviceMath math) {
  switch (math) {
    case kernels::DeviceMath::kTf32:
      return 2 * kTf32Roundoff;
    case kernels::DeviceMath::kBf16:
      return kBf16Roundoff;
    case kernels::DeviceMath::kFloat32:
      break;
  }
  return kFloat32Roundoff;
}

/// Returns the bound of ||found - exact|| / ||exact|| for sums of up to `terms` products of independent random numbers
/// around zero.
/// Both factors of a product are rounded, so it is off by twice a factor's error at most. The errors of the terms of a
/// sum are as independent as the terms, so the norm of their sum is off by that share, too. Sums are float32. In a
/// chain, each addition rounds a partial sum that is hardly larger than the result, so each adds one rounding error.
/// Algorithms that transform tiles (Winograd, FFT) add and subtract more: `kTransforms` stands for it. With bf16 a
/// library may round results, too.
inline double product_tolerance(kernels::DeviceMath math, std::size_t terms) {
  constexpr double kTransforms = 64;
  const double additions = (static_cast<double>(terms) + kTransforms) * kFloat32Roundoff;
  const double result = math == kernels::DeviceMath::kBf16 ? kBf16Roundoff : kFloat32Roundoff;
  return 2 * factor_error(math) + additions + result;
}

}  // namespace dragonn::test
