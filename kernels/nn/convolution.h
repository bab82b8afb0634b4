// SPDX-License-Identifier: MIT
/// Two-dimensional convolution (cross-correlation, as all frameworks call it) of NHWC images.
#pragma once

#include <cstdint>

#include "kernels/nn/plan.h"

namespace dragonn::kernels {

/// The shape. Input [batch, height, width, channels], output [batch, vertical.outputs(height),
/// horizontal.outputs(width), output_channels], weights [kernel height, kernel width, channels / groups,
/// output_channels] (HWIO; the output channels of group g are g * output_channels / groups and on), bias
/// [output_channels].
struct ConvolutionSpec {
  std::int64_t batch = 1, height = 1, width = 1, channels = 1;
  std::int64_t output_channels = 1;
  Window vertical, horizontal;
  std::int64_t groups = 1;  ///< divides channels and output_channels
  bool bias = true;
  bool training = true;                      ///< backward will be called
  bool input_gradient = true;                ///< backward computes the input's gradient
  ElementType type = ElementType::kFloat32;  ///< of input and output; weights and bias are float32
  DeviceMath math = DeviceMath::kFloat32;    ///< of products of float32; those of bf16 are exact

  std::int64_t output_height() const { return vertical.outputs(height); }
  std::int64_t output_width() const { return horizontal.outputs(width); }
  std::int64_t output_pixels() const { return batch * output_height() * output_width(); }
  friend bool operator==(const ConvolutionSpec&, const ConvolutionSpec&) = default;
};

/// Makes a plan. That takes tens of milliseconds if code is generated, and little if the same shape was planned before.
extern PlanFactory<ConvolutionSpec> make_convolution_plan;

}  // namespace dragonn::kernels
