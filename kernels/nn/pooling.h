// SPDX-License-Identifier: MIT
/// Maximum and average pooling of NHWC images.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/nn/plan.h"

namespace dragonn::kernels {

enum class PoolingKind {
  kMaximum,  ///< the gradient goes to one of the largest inputs of a window
  kAverage,  ///< mean over the inputs in the window: padding does not count
};

/// The shape. Input [batch, height, width, channels], output [batch, vertical.outputs(height),
/// horizontal.outputs(width), channels].
struct PoolingSpec {
  PoolingKind kind = PoolingKind::kMaximum;
  std::int64_t batch = 1, height = 1, width = 1, channels = 1;
  Window vertical, horizontal;
  bool training = true;  ///< backward will be called
};

/// Makes a plan. Backward needs neither input nor output.
extern PlanFactory<PoolingSpec> make_pooling_plan;

/// The shape. Input [batch, height, width, channels], output [batch, ceil(height / stride), ceil(width / stride),
/// output_channels]: pixels at multiples of the stride; input channel c becomes output channel c + (output_channels -
/// channels) / 2, the others are zero. Source: He et al., arXiv:1512.03385, section 4.2, option A, with the zeros on
/// both sides.
struct PaddedShortcutSpec {
  std::size_t batch = 1, height = 1, width = 1, channels = 1;
  std::size_t output_channels = 1;  ///< at least `channels`
  std::size_t stride = 1;
};

/// Computes the output.
extern Operation<void(const PaddedShortcutSpec& spec, TypedView<const float> input, TypedView<float> output)>
    padded_shortcut_forward;
/// Computes the gradient. Overwrites `input_gradient`.
extern Operation<void(const PaddedShortcutSpec& spec, TypedView<const float> output_gradient,
                      TypedView<float> input_gradient)>
    padded_shortcut_backward;

}  // namespace dragonn::kernels
