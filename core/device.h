// SPDX-License-Identifier: MIT
/// Device: a place where memory lives and arithmetic runs.
#pragma once

#include <string>

namespace dragonn {

enum class DeviceType { kCpu, kCuda };

/// A device of this machine. `index` counts devices of one type.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;

  bool is_cpu() const { return type == DeviceType::kCpu; }
  friend bool operator==(const Device&, const Device&) = default;
};

inline std::string to_string(const Device& device) {
  return device.is_cpu() ? std::string("cpu") : "cuda:" + std::to_string(device.index);
}

}  // namespace dragonn
