// SPDX-License-Identifier: MIT
/// Device: a place where memory lives and arithmetic runs; and the marks of code that GPU kernels share.
#pragma once

#include <string>

/// DRAGONN_HOST_DEVICE marks functions that host code and GPU kernels share, so that tests of the host cover both.
/// DRAGONN_DEVICE_CODE is defined where GPU kernels are compiled: by nvcc, or for tests/cuda_emulation.
#ifdef __CUDACC__
#define DRAGONN_DEVICE_CODE
#define DRAGONN_HOST_DEVICE __host__ __device__
#else
#define DRAGONN_HOST_DEVICE
#endif

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
