// SPDX-License-Identifier: MIT
#include "core/buffer.h"

#include <array>
#include <cstdlib>
#include <sys/mman.h>
#include <utility>

#include <fmt/format.h>

namespace dragonn {
namespace {

void* allocate_host(std::size_t bytes, const Device&) {
  constexpr std::size_t kLine = 64;  // a cache line, and the widest vector register
  constexpr std::size_t kHugePage = std::size_t{1} << 21;
  // Large buffers begin on a huge page and ask for such pages: fewer entries of the processor's page tables, fewer
  // faults.
  const bool huge = bytes >= 2 * kHugePage;
  const std::size_t alignment = huge ? kHugePage : kLine;
  const std::size_t rounded = (bytes + kLine - 1) / kLine * kLine;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, rounded == 0 ? kLine : rounded) != 0)
    throw SystemError(fmt::format("out of memory: {} bytes for a host buffer", bytes));
  if (huge) madvise(memory, rounded / kHugePage * kHugePage, MADV_HUGEPAGE);  // a wish: the kernel may refuse
  return memory;
}

void release_host(void* memory, const Device&) noexcept {
  std::free(memory);
}

/// One entry per type of device.
using Table = std::array<MemoryFunctions, 2>;
constinit Table own_memory{MemoryFunctions{allocate_host, release_host}, MemoryFunctions{}};
constinit Table host_memory{};  ///< page-locked; the CPU's row stays empty, since it uses own_memory

MemoryFunctions& row(Table& table, DeviceType type) {
  return table[static_cast<std::size_t>(type)];
}

}  // namespace

MemoryFunctions register_memory(DeviceType type, MemoryFunctions functions) {
  return std::exchange(row(own_memory, type), functions);
}

MemoryFunctions register_host_memory(DeviceType copier, MemoryFunctions functions) {
  return std::exchange(row(host_memory, copier), functions);
}

const MemoryFunctions& memory_functions(const MemoryPlace& place) {
  const Device& keeper = place.keeper();
  const MemoryFunctions& functions = row(place.copier.is_cpu() ? own_memory : host_memory, keeper.type);
  if (functions.allocate == nullptr) throw DeviceError("this build has no memory for device " + to_string(keeper));
  return functions;
}

}  // namespace dragonn
