// SPDX-License-Identifier: MIT
/// Copies, fills, sums of equally long arrays, with and without ReLU, and dropout.
#pragma once

#include <cstdint>

#include "core/view.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

/// Adds: sum_i = a_i + b_i. `sum` may be `a` or `b`. @throws ShapeError if the sizes differ; DeviceError for a device
/// without a row.
extern Operation<void(View<const float> a, View<const float> b, View<float> sum)> add;
/// Adds and applies ReLU: sum_i = max(0, a_i + b_i). Aliasing and errors as add.
extern Operation<void(View<const float> a, View<const float> b, View<float> sum)> add_relu;
/// Computes ReLU's gradient: input_gradient_i = output_i > 0 ? output_gradient_i : 0. `input_gradient` may be
/// `output_gradient`.
extern Operation<void(View<const float> output, View<const float> output_gradient, View<float> input_gradient)>
    relu_backward;

/// Copies: target_i = source_i, between any devices. `target` may be `source`. Waits as `transfer` (kernels/devices.h)
/// does.
void copy(View<const float> source, View<float> target);
/// Fills: target_i = value.
extern Operation<void(float value, View<float> target)> fill;

/// Computes output_i = input_i / (1 - rate) if draw i of the stream key[0] is at least `rate`, else 0. Applied to the
/// output's gradient with the same key it gives the input's: nothing is stored in between. `output` may be `input`.
/// @param rate in [0, 1).  @param key one, on the device, so that recorded work draws anew.  @throws DeviceError if
/// there is no row for the device. Source: Srivastava et al., JMLR 15 (2014), in the inverted form.
extern Operation<void(View<const float> input, float rate, View<const std::uint64_t> key, View<float> output)> dropout;

}  // namespace dragonn::kernels
