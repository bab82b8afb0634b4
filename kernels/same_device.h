// SPDX-License-Identifier: MIT
/// Device check: the arguments of an operation must be on one device.
#pragma once

#include "core/device.h"
#include "core/error.h"

namespace dragonn::kernels {

/// Checks two arguments. @throws DeviceError naming the operation and both places unless they are one.
inline void check_same_device(const char* operation, const Device& first, const Device& other) {
  if (!(first == other))
    throw DeviceError(fmt::format("{}: memory of device {} together with memory of {}", operation, to_string(first),
                                  to_string(other)));
}

}  // namespace dragonn::kernels
