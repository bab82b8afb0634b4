// SPDX-License-Identifier: MIT
/// Copies, fills, sums of equally long arrays, with and without ReLU, and dropout.
#pragma once

#include <cstdint>

#include "core/view.h"
#include "kernels/operation.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

/// Adds: sum_i = a_i + b_i. `sum` may be `a` or `b`. @throws ShapeError if the sizes differ; DeviceError for a device
/// without a row.
extern Operation<void(TypedView<const float> a, TypedView<const float> b, TypedView<float> sum)> add;
/// Adds and applies ReLU: sum_i = max(0, a_i + b_i). Aliasing and errors as add.
extern Operation<void(TypedView<const float> a, TypedView<const float> b, TypedView<float> sum)> add_relu;
/// Computes ReLU's gradient: input_gradient_i = output_i > 0 ? output_gradient_i : 0. `input_gradient` may be
/// `output_gradient`.
extern Operation<void(TypedView<const float> output, TypedView<const float> output_gradient,
                      TypedView<float> input_gradient)>
    relu_backward;

/// Copies: target_i = source_i, between any devices, elements of one type. `target` may be `source`. Waits as
/// `transfer` (kernels/devices.h) does. @throws ShapeError if the sizes differ.
void copy(TypedView<const float> source, TypedView<float> target);
/// Converts: target_i = source_i, rounded if the target is bf16. The arrays must not overlap. @throws ShapeError if the
/// sizes differ; DeviceError for a device without a row. The CPU has float32 only.
extern Operation<void(TypedView<const float> source, TypedView<float> target)> convert;
/// Fills: target_i = value.
extern Operation<void(float value, View<float> target)> fill;

/// Computes output_i = input_i / (1 - rate) if draw i of the stream key[0] is at least `rate`, else 0. Applied to the
/// output's gradient with the same key it gives the input's: nothing is stored in between. `output` may be `input`.
/// @param rate in [0, 1).  @param key one, on the device, so that recorded work draws anew. Source: Srivastava et al.,
/// JMLR 15 (2014), in the inverted form.
extern Operation<void(TypedView<const float> input, float rate, View<const std::uint64_t> key, TypedView<float> output)>
    dropout;

}  // namespace dragonn::kernels
