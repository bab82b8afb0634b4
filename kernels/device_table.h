// SPDX-License-Identifier: MIT
/// DeviceTable: the implementations of one operation, a row per type of device.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/device.h"
#include "core/error.h"

namespace dragonn::kernels {

/// The implementations of one operation, by type of device. `Function` is a function pointer: the kernel itself, or the
/// factory of a plan. The front function of an operation holds the table as a function-local static with the CPU row; a
/// device's own file adds its row before main.
template <class Function>
class DeviceTable {
 public:
  DeviceTable(std::string_view operation, Function cpu) : operation_(operation) { add(DeviceType::kCpu, cpu); }

  /// Adds a row. Returns true, so that a static object can do it.
  bool add(DeviceType type, Function function) {
    rows_[static_cast<std::size_t>(type)] = function;
    return true;
  }
  /// Returns the row of a device. @throws DeviceError naming the operation and the device if that row is missing.
  Function at(const Device& device) const {
    const Function function = rows_[static_cast<std::size_t>(device.type)];
    if (function == nullptr)
      throw DeviceError(
          fmt::format("operation {} has no kernel for device {} in this build", operation_, to_string(device)));
    return function;
  }

 private:
  std::string_view operation_;
  std::array<Function, 2> rows_{};
};

}  // namespace dragonn::kernels
