// SPDX-License-Identifier: MIT
#include "tests/support/allocation_counter.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <new>
#include <string_view>

#include "core/buffer.h"

namespace {

// A replaced operator new takes no argument that could carry these.
std::atomic<bool> counting = false;                     // NOLINT
std::atomic<std::size_t> all_allocations = 0;           // NOLINT
thread_local std::size_t this_threads_allocations = 0;  // NOLINT

/// The functions of a kind of memory when nobody counts.
struct Uncounted {
  dragonn::MemoryFunctions (*exchange)(dragonn::DeviceType, dragonn::MemoryFunctions);
  dragonn::DeviceType type;
  dragonn::MemoryFunctions functions = {};
};
// The host's memory, a GPU's, and the host's end of its copies.
std::array<Uncounted, 3> uncounted{Uncounted{dragonn::register_memory, dragonn::DeviceType::kCpu},  // NOLINT
                                   Uncounted{dragonn::register_memory, dragonn::DeviceType::kCuda},
                                   Uncounted{dragonn::register_host_memory, dragonn::DeviceType::kCuda}};

/// Returns whether oneDNN is the caller: it allocates while it runs a primitive, which this project cannot avoid.
bool is_onednn(const void* caller) {
  Dl_info info{};
  return dladdr(caller, &info) != 0 && info.dli_fname != nullptr &&
         std::string_view(info.dli_fname).find("libdnnl") != std::string_view::npos;
}

void count() {
  ++all_allocations;
  ++this_threads_allocations;
}

void* allocate_or_null(std::size_t bytes, std::size_t alignment, const void* caller) {
  if (counting && !is_onednn(caller)) count();
  return alignment <= alignof(std::max_align_t)
             ? std::malloc(bytes == 0 ? 1 : bytes)
             : std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
}

void* allocate(std::size_t bytes, std::size_t alignment, const void* caller) {
  void* memory = allocate_or_null(bytes, alignment, caller);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

template <std::size_t kKind>
void* allocate_buffer(std::size_t bytes, const dragonn::Device& keeper) {
  count();
  return uncounted[kKind].functions.allocate(bytes, keeper);
}

template <std::size_t kKind = 0>
void count_kinds() {
  Uncounted& kind = uncounted[kKind];
  kind.functions = kind.exchange(kind.type, {});
  if (kind.functions.allocate != nullptr) {
    kind.exchange(kind.type, {allocate_buffer<kKind>, kind.functions.release});
  }
  if constexpr (kKind + 1 < uncounted.size()) count_kinds<kKind + 1>();
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes, 0, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes, 0, __builtin_return_address(0));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes, 0, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes, 0, __builtin_return_address(0));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace dragonn::testing {

AllocationCounter::AllocationCounter() {
  count_kinds();
  counting = true;
}

AllocationCounter::~AllocationCounter() {
  counting = false;
  for (const Uncounted& kind : uncounted) kind.exchange(kind.type, kind.functions);
}

std::size_t AllocationCounter::count() {
  return all_allocations;
}

std::size_t AllocationCounter::count_of_thread() {
  return this_threads_allocations;
}

}  // namespace dragonn::testing
