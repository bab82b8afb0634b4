// SPDX-License-Identifier: MIT
/// DeviceMath: the precision in which a device multiplies, and in which a network on it keeps activations. Parameters,
/// their gradients and all statistics are float32 in any case.
#pragma once

#include <array>

#include "core/device.h"
#include "core/error.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

/// The precision of the factors of matrix products and convolutions; sums are float32. With kBf16 activations and their
/// gradients are bf16 in memory, too (storage_type()), and products read copies of the weights in bf16: every operation
/// computes in float32 and rounds once, to its result. Where data stays float32 although the mode is kBf16, matrix
/// products round their factors to bf16; convolutions, and cuDNN's recurrent layers, round theirs to TF32.
enum class DeviceMath {
  kFloat32,  ///< 24 bits
  kTf32,     ///< 11 bits, with the exponent of float32
  kBf16,     ///< 8 bits, with the exponent of float32
};

constexpr auto choices(DeviceMath) {
  return std::array{"float32", "tf32", "bf16"};
}

/// Returns the type of activations that goes with a precision.
constexpr ElementType storage_type(DeviceMath math) {
  return math == DeviceMath::kBf16 ? ElementType::kBf16 : ElementType::kFloat32;
}

/// Checks a precision. @throws ConfigError if the device does not have it.
inline void check_math(const Device& device, DeviceMath math) {
  if (device.is_cpu() && math != DeviceMath::kFloat32)
    throw ConfigError("the CPU multiplies in float32 only: valid is \"float32\"");
}

}  // namespace dragonn::kernels
