// SPDX-License-Identifier: MIT
/// GradientPassTable: the implementations of the gradient passes by device, to which a device's file adds its row.
#pragma once

#include <cstddef>

#include "kernels/device_table.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/gradient_pass_simd.h"

namespace dragonn::kernels::detail {

/// A pass over `numel` elements whose pointers belong to the device of `result`; all arguments are checked already. It
/// sets `non_finite`, `selected`, and what the request asks for.
using GradientPassTable =
    DeviceTable<void (*)(const AccumulateJob& job, const PassRequest& request, std::size_t numel, PassResult& result)>;
GradientPassTable& gradient_pass_table();

}  // namespace dragonn::kernels::detail
