// SPDX-License-Identifier: MIT
/// Layer normalization: every row to mean 0 and variance 1, then scaled and shifted by column.
#pragma once

#include <cstdint>

#include "kernels/nn/plan.h"

namespace dragonn::kernels {

/// The shape. Input and output [rows, columns], scale and shift [columns].
struct LayerNormSpec {
  std::int64_t rows = 1, columns = 1;
  float epsilon = 1e-5f;
  bool training = true;        ///< backward will be called
  bool input_gradient = true;  ///< backward computes the input's gradient
};

/// Makes the plan of layer normalization. Parameters are scale and shift. The variance is the biased one. Source: Ba et
/// al., arXiv:1607.06450, equations 3 and 4.
extern PlanFactory<LayerNormSpec> make_layer_norm_plan;

}  // namespace dragonn::kernels
