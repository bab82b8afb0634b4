// SPDX-License-Identifier: MIT
/// Radix selection: the exact k-th largest magnitude on a GPU, without a wait of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/runtime.h"

namespace dragonn::kernels::cuda {

/// The state of a selection, on the GPU at here.device_results(), which it occupies until the result was used.
struct RadixSelection {
  float magnitude;     ///< the result, once all digits are known
  std::uint32_t key;   ///< the bits of the result, as far as they are known
  std::uint32_t rank;  ///< of the result among the values that share the known digits; at last, among its ties
};

/// Returns the k-th largest |x| of `size` floats, 0 < k <= size < 2^32; a NaN counts as 0. Radix selection on the bits
/// in three digits: reads 12 bytes per value. Uses here.scratch().
const RadixSelection* select_kth_largest(Context& here, const float* values, std::size_t size, std::size_t k);
/// Returns the leading bits of it: a magnitude that at least k values reach. Reads 4 bytes per value.
const RadixSelection* select_lower_bound(Context& here, const float* values, std::size_t size, std::size_t k);

}  // namespace dragonn::kernels::cuda
