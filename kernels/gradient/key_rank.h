// SPDX-License-Identifier: MIT
/// Ranks of magnitudes on the CPU, exactly and without sorting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/gradient/magnitude.h"

namespace dragonn::kernels::detail {

/// The key (kernels/gradient/magnitude_digits.h) of the k-th largest magnitude, 0 < k <= values.size(). Of many values
/// a sample gives a range that all but always holds the result: they are read once, and what is inside of it is ranked,
/// about one in fifty. Where it does not, or of few, histograms narrow the range of all keys: three readings, then few.
std::uint32_t kth_largest_key(std::span<const float> values, std::size_t k, MagnitudeScratch& scratch);

}  // namespace dragonn::kernels::detail
