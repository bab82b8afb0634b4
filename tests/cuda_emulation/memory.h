// SPDX-License-Identifier: MIT
/// Memory of the emulated GPU, and of the host that is page-locked for it.
#pragma once

#include <cstddef>
#include <mutex>

namespace dragonn::emulation {

/// The mutex of the device: its holder does the GPU's work or changes its memory, one at a time.
std::mutex& device_mutex();

/// Allows use of the GPU's memory while it lives; at other times AddressSanitizer reports every access. For the holder
/// of the device.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

/// Checks an access as AddressSanitizer does, once for all bytes: for code that is built without it, to be fast. Ends
/// the program, naming the operation, if some of these bytes must not be touched.
void check_access(const void* memory, std::size_t bytes, const char* operation);

}  // namespace dragonn::emulation
