// SPDX-License-Identifier: MIT
/// The parameter-free shortcut of CIFAR residual networks: every other pixel, and zeros for the new channels.
#pragma once

#include <cstddef>

#include "core/view.h"
#include "kernels/operation.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

/// The shape. Input [batch, height, width, channels], output [batch, ceil(height / stride), ceil(width / stride),
/// output_channels]: pixels at multiples of the stride; input channel c becomes output channel c + (output_channels -
/// channels) / 2, the others are zero. Source: He et al., arXiv:1512.03385, section 4.2, option A, with the zeros on
/// both sides.
struct PaddedShortcutSpec {
  std::size_t batch = 1, height = 1, width = 1, channels = 1;
  std::size_t output_channels = 1;  ///< at least `channels`
  std::size_t stride = 1;
};

/// Computes the output. @throws DeviceError if there is no row for the device.
extern Operation<void(const PaddedShortcutSpec& spec, TypedView<const float> input, TypedView<float> output)>
    padded_shortcut_forward;
/// Computes the gradient. Overwrites `input_gradient`.
extern Operation<void(const PaddedShortcutSpec& spec, TypedView<const float> output_gradient,
                      TypedView<float> input_gradient)>
    padded_shortcut_backward;

}  // namespace dragonn::kernels
