// SPDX-License-Identifier: MIT
/// Elementwise operations: copies, fills, and sums of equally long arrays, with and without ReLU.
#pragma once

#include "core/view.h"
#include "kernels/device_table.h"

namespace dragonn::kernels {

/// Adds: sum_i = a_i + b_i. `sum` may be `a` or `b`. @throws ShapeError if the sizes differ; DeviceError for a device
/// without a row in the table below.
void add(View<const float> a, View<const float> b, View<float> sum);
/// Adds and applies ReLU: sum_i = max(0, a_i + b_i). Aliasing and errors as add.
void add_relu(View<const float> a, View<const float> b, View<float> sum);
/// Computes ReLU's gradient: input_gradient_i = output_i > 0 ? output_gradient_i : 0. `input_gradient` may be
/// `output_gradient`.
void relu_backward(View<const float> output, View<const float> output_gradient, View<float> input_gradient);

/// Copies: target_i = source_i, between any devices. `target` may be `source`. Waits as `transfer` (kernels/devices.h)
/// does.
void copy(View<const float> source, View<float> target);
/// Fills: target_i = value.
void fill(float value, View<float> target);

/// The form of the first three operations: two arrays in, one out.
using BinaryTable = DeviceTable<void (*)(View<const float>, View<const float>, View<float>)>;
BinaryTable& add_table();
BinaryTable& add_relu_table();
BinaryTable& relu_backward_table();
using FillTable = DeviceTable<void (*)(float, View<float>)>;
FillTable& fill_table();

}  // namespace dragonn::kernels
