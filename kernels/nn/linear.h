// SPDX-License-Identifier: MIT
/// Linear map: output = input * weights^T + bias.
#pragma once

#include <cstdint>

#include "kernels/nn/plan.h"

namespace dragonn::kernels {

/// The shape. Input [batch, inputs], weights [outputs, inputs], bias [outputs], output [batch, outputs].
struct LinearSpec {
  std::int64_t batch = 1, inputs = 1, outputs = 1;
  bool bias = true;
  bool training = true;                      ///< backward will be called
  bool input_gradient = true;                ///< backward computes the input's gradient
  ElementType type = ElementType::kFloat32;  ///< of input and output; weights and bias are float32
};

/// Makes a plan.
extern PlanFactory<LinearSpec> make_linear_plan;

}  // namespace dragonn::kernels
