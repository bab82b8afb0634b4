// SPDX-License-Identifier: MIT
/// Lookahead: a convolution over the following steps, feature by feature.
#pragma once

#include <cstddef>

#include "core/view.h"
#include "kernels/operation.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

/// The shape of output[b, t, f] = sum over j in [0, context] with t + j < steps of weights[j, f] * input[b, t + j, f].
struct LookaheadSpec {
  std::size_t batch = 1, steps = 1, features = 1;
  std::size_t context = 0;
};

/// Computes the output. @param input [batch, steps, features].  @param weights [context + 1, features].
/// @throws DeviceError if there is no row for the device.
extern Operation<void(const LookaheadSpec& spec, TypedView<const float> input, View<const float> weights,
                      TypedView<float> output)>
    lookahead_forward;
/// Computes both gradients, which are overwritten; `input_gradient` may be empty.
extern Operation<void(const LookaheadSpec& spec, TypedView<const float> input, View<const float> weights,
                      TypedView<const float> output_gradient, TypedView<float> input_gradient,
                      View<float> weights_gradient)>
    lookahead_backward;

}  // namespace dragonn::kernels
