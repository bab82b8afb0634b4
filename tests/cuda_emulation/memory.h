// SPDX-License-Identifier: MIT
/// Memory of the emulated GPU, and of the host that is page-locked for it.
#pragma once

#include <cstddef>
#include <mutex>

namespace dragonn::emulation {

/// Held by whoever does the GPU's work or changes what it has: one thing at a time.
std::mutex& device_mutex();

/// While one lives the GPU's memory may be used; at other times AddressSanitizer reports whoever does. For the holder
/// of the device.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

/// What AddressSanitizer does for each access, once for all of them: for code that is built without, to be quick. Ends
/// the program, naming the operation, where some of these bytes are not to be touched.
void check_access(const void* memory, std::size_t bytes, const char* operation);

}  // namespace dragonn::emulation
