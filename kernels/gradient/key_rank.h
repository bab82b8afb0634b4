// SPDX-License-Identifier: MIT
/// Key ranks: ranks of magnitudes on the CPU, exactly and without sorting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/gradient/magnitude.h"

namespace dragonn::kernels::detail {

/// Returns the key (kernels/gradient/magnitude_digits.h) of the k-th largest magnitude, 0 < k <= values.size(). For
/// many values a sample gives a range that all but always holds the result; they are read once, and those in the range,
/// about one in fifty, are ranked. If the range misses, or for few values, histograms narrow the range of all keys:
/// three passes over all, then over few.
std::uint32_t kth_largest_key(std::span<const float> values, std::size_t k, MagnitudeScratch& scratch);

}  // namespace dragonn::kernels::detail
