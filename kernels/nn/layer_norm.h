// SPDX-License-Identifier: MIT
/// Layer normalization: every row to mean 0 and variance 1, then scaled and shifted by column.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device.h"
#include "core/view.h"
#include "kernels/nn/plan.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

/// The shape. Input and output [rows, columns], scale and shift [columns].
struct LayerNormSpec {
  std::int64_t rows = 1, columns = 1;
  float epsilon = 1e-5f;
  bool training = true;  ///< backward will be called
};

struct LayerNormForward {
  TypedView<const float> input;
  View<const float> scale, shift;
  TypedView<float> output;
  View<float> saved;
  View<float> scratch;
};

struct LayerNormBackward {
  TypedView<const float> input;
  View<const float> scale, shift;
  TypedView<const float> output_gradient;
  TypedView<float> input_gradient;             ///< overwritten
  View<float> scale_gradient, shift_gradient;  ///< overwritten
  View<const float> saved;
  View<float> scratch;
};

/// Layer normalization for one shape. The variance is the biased one. Source: Ba et al., arXiv:1607.06450, equations 3
/// and 4.
using LayerNormPlan = Plan<LayerNormForward, LayerNormBackward>;

/// Makes a plan. @throws Error if the device's library refuses, DeviceError if there is no row for the device.
extern PlanFactory<LayerNormPlan, LayerNormSpec> make_layer_norm_plan;

}  // namespace dragonn::kernels
