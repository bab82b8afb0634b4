// SPDX-License-Identifier: MIT
/// Exceedances: statistics of the magnitudes above a threshold, and sums of logarithms, for fits of distributions.
#pragma once

#include <cstddef>
#include <limits>

#include "core/sparse_vector.h"
#include "core/view.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

/// The statistics of the magnitudes |x| > threshold; sums in double.
struct Exceedances {
  std::size_t count = 0;
  double sum = 0;                                           ///< of |x| - threshold
  double sum_squares = 0;                                   ///< of (|x| - threshold)^2
  float smallest = std::numeric_limits<float>::infinity();  ///< |x|
};

// [n] float32 values. Partial sums have fixed places: the bits depend neither on the number of threads nor on the
// vector width; on another type of device they agree to rounding. NaN exceeds nothing.
// @throws DeviceError for a device without a row.

/// Returns the statistics. Reads 4n bytes.
extern Operation<Exceedances(View<const float> values, float threshold)> exceedances;

/// Returns the same statistics, bit for bit, and in the same sweep selects the entries with |x| >= least and x != 0,
/// ascending. `selected` is overwritten and reserves n entries. Reads 4n bytes, on a GPU twice.
extern Operation<Exceedances(View<const float> values, float threshold, float min, SparseVector& selected)>
    exceedances_and_entries;

/// Returns the sum of ln(scale * |x| + offset), where each of these is in [1e-18, 2]. Reads 4n bytes: logarithms are
/// taken of products, not of each element.
extern Operation<double(View<const float> values, double scale, double offset)> sum_magnitude_logs;

}  // namespace dragonn::kernels
