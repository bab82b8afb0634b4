// SPDX-License-Identifier: MIT
/// Position embedding: a learned vector for every time step, added to it.
#pragma once

#include <cstddef>

#include "core/view.h"
#include "kernels/device_table.h"

namespace dragonn::kernels {

/// Computes output [batch, steps, width] = input + the first `steps` rows of table [rows, width]. `output` may be
/// `input`. @throws ShapeError if the sizes do not fit; DeviceError if there is no row for the device.
void add_positions(View<const float> input, View<const float> table, std::size_t steps, std::size_t width,
                   View<float> output);

/// Computes table_gradient [rows, width]: the sum over the batch of the output gradients; zeros behind row `steps`.
void add_positions_backward(View<const float> output_gradient, std::size_t steps, std::size_t width,
                            View<float> table_gradient);

using AddPositionsTable =
    DeviceTable<void (*)(View<const float>, View<const float>, std::size_t, std::size_t, View<float>)>;
AddPositionsTable& add_positions_table();
using AddPositionsBackwardTable = DeviceTable<void (*)(View<const float>, std::size_t, std::size_t, View<float>)>;
AddPositionsBackwardTable& add_positions_backward_table();

}  // namespace dragonn::kernels
