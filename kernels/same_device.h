// SPDX-License-Identifier: MIT
/// The check that an operation's arguments live on one device.
#pragma once

#include "core/device.h"
#include "core/error.h"

namespace dragonn::kernels {

/// @throws DeviceError naming the operation and both places unless they are one.
inline void check_same_device(const char* operation, const Device& first, const Device& other) {
  if (!(first == other))
    throw DeviceError(fmt::format("{}: memory of device {} together with memory of {}", operation, to_string(first),
                                  to_string(other)));
}

}  // namespace dragonn::kernels
