// SPDX-License-Identifier: MIT
/// What fits of a distribution to magnitudes need: statistics of what exceeds a threshold, and sums of logarithms.
#pragma once

#include <cstddef>
#include <limits>

#include "core/sparse_vector.h"
#include "core/view.h"

namespace dragonn::kernels {

/// Of the magnitudes |x| > threshold; sums in double.
struct Exceedances {
  std::size_t count = 0;
  double sum = 0;                                           ///< of |x| - threshold
  double sum_squares = 0;                                   ///< of (|x| - threshold)^2
  float smallest = std::numeric_limits<float>::infinity();  ///< |x|
};

// [n] float32 host values. Partial sums have fixed places: the bits depend neither on the number of threads nor on the
// vector width. NaN exceeds nothing.

/// Reads 4n bytes.
Exceedances exceedances(View<const float> values, float threshold);

/// The same, and in the same sweep the entries with |x| >= least and x != 0, ascending. `selected` is overwritten and
/// reserves n entries. The sums are those of `exceedances`, bit for bit. Reads 4n bytes.
Exceedances exceedances_and_entries(View<const float> values, float threshold, float least, SparseVector& selected);

/// Sum of ln(scale * |x| + offset), where each of these is in [1e-18, 2]. Reads 4n bytes: logarithms are taken of
/// products, not of each element.
double sum_magnitude_logs(View<const float> values, double scale, double offset);

}  // namespace dragonn::kernels
