// SPDX-License-Identifier: MIT
/// Transposes a batch of matrices.
#pragma once

#include <cstddef>

#include "core/view.h"
#include "kernels/device_table.h"

namespace dragonn::kernels {

/// Transposes: output [batch, columns, rows] = input [batch, rows, columns]. The arrays must not overlap.
/// @throws ShapeError if the sizes do not fit; DeviceError if there is no row for the device.
void swap_axes(View<const float> input, std::size_t rows, std::size_t columns, View<float> output);

using SwapAxesTable = DeviceTable<void (*)(View<const float>, std::size_t, std::size_t, View<float>)>;
SwapAxesTable& swap_axes_table();

}  // namespace dragonn::kernels
