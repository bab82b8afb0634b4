// SPDX-License-Identifier: MIT
/// Local response normalization: every channel is divided by a power of the squares of its neighbours.
#pragma once

#include <cstdint>

#include "kernels/nn/plan.h"

namespace dragonn::kernels {

/// The shape. Input and output [batch, height, width, channels]; output = input / (k + alpha / size * sum of the
/// squares of the `size` channels around it)^beta, with channels outside of the image as zeros. Source: Krizhevsky et
/// al., NIPS 2012, section 3.3; alpha is divided by the size as PyTorch and oneDNN do, so the paper's 1e-4 is 5e-4
/// here.
struct LocalResponseSpec {
  std::int64_t batch = 1, height = 1, width = 1, channels = 1;
  std::int64_t size = 5;  ///< odd
  float alpha = 5e-4f;
  float beta = 0.75f;
  float k = 2;
  bool training = true;  ///< backward will be called
};

struct LocalResponseForward {
  TypedView<const float> input;
  TypedView<float> output;
  View<float> saved;
  View<float> scratch;
};

struct LocalResponseBackward {
  TypedView<const float> input;
  TypedView<const float> output_gradient;
  TypedView<float> input_gradient;  ///< overwritten; not one of the others
  View<const float> saved;
  View<float> scratch;
};

using LocalResponsePlan = Plan<LocalResponseForward, LocalResponseBackward>;

/// Makes a plan. @throws Error if the device's library refuses, DeviceError if there is no row for the device.
extern PlanFactory<LocalResponsePlan, LocalResponseSpec> make_local_response_plan;

}  // namespace dragonn::kernels
