// SPDX-License-Identifier: MIT
/// Dropout: zeroes random elements and scales the others up.
#pragma once

#include <cstdint>

#include "core/view.h"
#include "kernels/device_table.h"

namespace dragonn::kernels {

/// Computes output_i = input_i / (1 - rate) if draw i of the stream key[0] is at least `rate`, else 0. Applied to the
/// output's gradient with the same key it gives the input's: nothing is stored in between. `output` may be `input`.
/// @param rate in [0, 1).  @param key one, on the device, so that recorded work draws anew.  @throws DeviceError if
/// there is no row for the device. Source: Srivastava et al., JMLR 15 (2014), in the inverted form.
void dropout(View<const float> input, float rate, View<const std::uint64_t> key, View<float> output);

using DropoutTable = DeviceTable<void (*)(View<const float>, float, View<const std::uint64_t>, View<float>)>;
DropoutTable& dropout_table();

}  // namespace dragonn::kernels
