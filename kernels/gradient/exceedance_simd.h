// SPDX-License-Identifier: MIT
/// Vector loops of kernels/gradient/exceedance.h, dispatched at run time to the best instruction set.
#pragma once

#include <cstddef>

#include "kernels/gradient/exceedance.h"

namespace dragonn::kernels::detail {

/// Adds the exceedances of values[begin, end) to `total`.
void add_exceedances_chunk(const float* values, std::size_t begin, std::size_t end, float threshold,
                           Exceedances* total);
/// Returns the sum of ln(scale * |x| + offset) over values[begin, end).
double sum_magnitude_logs_chunk(const float* values, std::size_t begin, std::size_t end, double scale, double offset);

}  // namespace dragonn::kernels::detail
