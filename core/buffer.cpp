// SPDX-License-Identifier: MIT
#include "core/buffer.h"

#include <array>
#include <cstdlib>

#include <fmt/format.h>

namespace dragonn {
namespace {

void* allocate_host(std::size_t bytes, const Device&) {
  constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector register
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
  if (memory == nullptr) throw SystemError(fmt::format("out of memory: {} bytes for a host buffer", bytes));
  return memory;
}

void release_host(void* memory, const Device&) noexcept {
  std::free(memory);
}

std::array<MemoryFunctions, 2>& table() {
  static std::array<MemoryFunctions, 2> functions{MemoryFunctions{allocate_host, release_host}, MemoryFunctions{}};
  return functions;
}

}  // namespace

void register_memory(DeviceType type, MemoryFunctions functions) {
  table()[static_cast<std::size_t>(type)] = functions;
}

const MemoryFunctions& memory_functions(const Device& device) {
  const MemoryFunctions& functions = table()[static_cast<std::size_t>(device.type)];
  if (functions.allocate == nullptr) throw DeviceError("this build has no memory for device " + to_string(device));
  return functions;
}

}  // namespace dragonn
