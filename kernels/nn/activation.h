// SPDX-License-Identifier: MIT
/// Activations: ReLU, also clipped at 20, tanh, sigmoid and GELU (x * Phi(x), with the error function or with tanh in
/// its place), elementwise.
#pragma once

#include <cstddef>
#include <memory>

#include "core/device.h"
#include "kernels/nn/plan.h"

namespace dragonn::kernels {

enum class Activation { kRelu, kClippedRelu, kTanh, kSigmoid, kGelu, kGeluTanh };

/// The largest value of a clipped ReLU. Source: Hannun et al., arXiv:1412.5567, section 2.
inline constexpr float kReluClip = 20;

/// Returns whether backward takes the input. Otherwise it takes the output, and forward may work in place.
constexpr bool activation_backward_reads_input(Activation activation) {
  return activation == Activation::kGelu || activation == Activation::kGeluTanh;
}

/// Makes a plan for `size` elements, whose input gradient may be the output gradient.
extern Operation<std::unique_ptr<Plan>(const Device& device, Activation activation, std::size_t size)>
    make_activation_plan;

}  // namespace dragonn::kernels
