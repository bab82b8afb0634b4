// SPDX-License-Identifier: MIT
/// Activations: ReLU, also clipped at 20, tanh, sigmoid and GELU (x * Phi(x), with the error function), elementwise.
#pragma once

#include <cstddef>
#include <memory>

#include "core/device.h"
#include "core/view.h"
#include "kernels/operation.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

enum class Activation { kRelu, kClippedRelu, kTanh, kSigmoid, kGelu };

/// The largest value of a clipped ReLU. Source: Hannun et al., arXiv:1412.5567, section 2.
inline constexpr float kReluClip = 20;

/// Returns whether backward takes the input. Otherwise it takes the output, and forward may work in place.
constexpr bool activation_backward_reads_input(Activation activation) {
  return activation == Activation::kGelu;
}

class ActivationPlan {
 public:
  virtual ~ActivationPlan() = default;
  /// Computes the output. `output` may be `input`.
  virtual void forward(TypedView<const float> input, TypedView<float> output) = 0;
  /// Computes the input's gradient. `value` is forward's output, or its input (activation_backward_reads_input).
  /// `input_gradient` may be `output_gradient`.
  virtual void backward(TypedView<const float> value, TypedView<const float> output_gradient,
                        TypedView<float> input_gradient) = 0;
};

/// Makes a plan for `size` elements. @throws DeviceError if there is no row for the device.
extern Operation<std::unique_ptr<ActivationPlan>(const Device& device, Activation activation, std::size_t size)>
    make_activation_plan;

}  // namespace dragonn::kernels
