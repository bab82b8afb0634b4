// SPDX-License-Identifier: MIT
/// Conversions between float32 and bf16, for libraries that want tensors in bf16. 6 bytes per element.
#pragma once

#include <cstddef>

#include "kernels/bf16.h"
#include "kernels/cuda/runtime.h"

namespace dragonn::kernels::cuda {

/// Rounds: target_i = to_bf16(source_i). The arrays must not overlap.
void round_to_bf16(Context& here, const float* source, std::size_t size, Bf16* target);
/// Widens: target_i = from_bf16(source_i). The arrays must not overlap.
void widen_bf16(Context& here, const Bf16* source, std::size_t size, float* target);

}  // namespace dragonn::kernels::cuda
