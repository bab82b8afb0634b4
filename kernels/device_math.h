// SPDX-License-Identifier: MIT
/// DeviceMath: the precision in which a device multiplies. Parameters, activations and gradients are float32 in any
/// case.
#pragma once

#include <array>

#include "core/device.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

/// The precision of the factors of matrix products and convolutions; sums are float32. Convolutions round their
/// results, too, if the library wants all tensors in one type (kernels/nn/cuda/other_convolutions.h).
enum class DeviceMath {
  kFloat32,  ///< 24 bits
  kTf32,     ///< 11 bits, with the exponent of float32
  kBf16,     ///< 8 bits, with the exponent of float32
};

constexpr auto choices(DeviceMath) {
  return std::array{"float32", "tf32", "bf16"};
}

/// Sets the precision of plans that this thread makes on `device` from now on; a plan keeps its own. The default is
/// float32. @throws ConfigError if the device has no such mode.
extern Operation<void(const Device& device, DeviceMath math)> set_math;

}  // namespace dragonn::kernels
