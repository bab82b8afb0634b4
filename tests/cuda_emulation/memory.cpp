// SPDX-License-Identifier: MIT
#include "tests/cuda_emulation/memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime_api.h>
#include <map>
#include <memory>
#include <unistd.h>

#include "tests/cuda_emulation/stream.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#endif

namespace dragonn::emulation {
namespace {

enum class Kind { kPageable, kPinned, kDevice };

struct Allocation {
  std::size_t bytes;
  Kind kind;
};

std::map<const std::byte*, Allocation>& allocations() {
  static std::map<const std::byte*, Allocation> all;
  return all;
}

/// Returns how many bytes are guarded: of large memory the front, since all of it would cost more than the work between
/// a wait and the next.
std::size_t guarded_bytes(const Allocation& allocation) {
  constexpr std::size_t kMax = std::size_t{64} << 10;
  return allocation.kind == Kind::kDevice ? std::min(allocation.bytes, kMax) : 0;
}
void close([[maybe_unused]] const void* memory, [[maybe_unused]] const Allocation& allocation) {
  ASAN_POISON_MEMORY_REGION(memory, guarded_bytes(allocation));
}
void open([[maybe_unused]] const void* memory, [[maybe_unused]] const Allocation& allocation) {
  ASAN_UNPOISON_MEMORY_REGION(memory, guarded_bytes(allocation));
}

Kind kind_of(const void* memory) {
  const std::scoped_lock lock(device_mutex());
  const auto* const address = static_cast<const std::byte*>(memory);
  const auto behind = allocations().upper_bound(address);
  if (behind == allocations().begin()) return Kind::kPageable;
  const auto& [begin, allocation] = *std::prev(behind);
  return address < begin + allocation.bytes ? allocation.kind : Kind::kPageable;
}

/// The GPU has as much as this machine.
std::size_t total_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

cudaError_t allocate(void** memory, std::size_t bytes, Kind kind) {
  if (captures_here()) return cudaErrorStreamCaptureUnsupported;
  if (bytes > total_bytes()) return cudaErrorMemoryAllocation;
  constexpr std::size_t kAlignment = 256;
  if (posix_memalign(memory, kAlignment, bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xFF, bytes);  // floats that are NaN: nobody may read what nobody wrote
  const std::scoped_lock lock(device_mutex());
  close(*memory, allocations()[static_cast<const std::byte*>(*memory)] = {bytes, kind});
  return cudaSuccess;
}

cudaError_t release(void* memory, Kind kind) {
  if (memory == nullptr) return cudaSuccess;
  finish_all();  // as CUDA does
  const std::scoped_lock lock(device_mutex());
  const auto found = allocations().find(static_cast<const std::byte*>(memory));
  if (found == allocations().end() || found->second.kind != kind) return cudaErrorInvalidValue;
  open(memory, found->second);
  allocations().erase(found);
  std::free(memory);
  return cudaSuccess;
}

/// Returns whether the kinds of a copy's ends are those that its caller states.
bool is(cudaMemcpyKind direction, Kind from, Kind to) {
  const bool from_device = from == Kind::kDevice, to_device = to == Kind::kDevice;
  switch (direction) {
    case cudaMemcpyHostToHost:
      return !from_device && !to_device;
    case cudaMemcpyHostToDevice:
      return !from_device && to_device;
    case cudaMemcpyDeviceToHost:
      return from_device && !to_device;
    case cudaMemcpyDeviceToDevice:
      return from_device && to_device;
    default:
      return true;
  }
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

}  // namespace

std::mutex& device_mutex() {
  static std::mutex mutex;
  return mutex;
}

DeviceAccess::DeviceAccess() {
  for (const auto& [memory, allocation] : allocations()) open(memory, allocation);
}

DeviceAccess::~DeviceAccess() {
  for (const auto& [memory, allocation] : allocations()) close(memory, allocation);
}

void check_access([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes,
                  [[maybe_unused]] const char* operation) {
#ifdef __SANITIZE_ADDRESS__
  if (__asan_region_is_poisoned(const_cast<void*>(memory), bytes) == nullptr) return;
  std::fprintf(stderr, "emulated GPU: %s touches memory that is not its own, of %zu bytes at %p\n", operation, bytes,
               memory);
  std::abort();
#endif
}

}  // namespace dragonn::emulation

using namespace dragonn::emulation;

extern "C" {

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return allocate(memory, bytes, Kind::kDevice);
}
cudaError_t cudaFree(void* memory) {
  return release(memory, Kind::kDevice);
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return allocate(memory, bytes, Kind::kPinned);
}
cudaError_t cudaFreeHost(void* memory) {
  return release(memory, Kind::kPinned);
}
cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  *total = total_bytes();
  *available = static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return cudaSuccess;
}

// Of pageable memory of the host a source has been read, and a target written, when the call returns; nothing is known
// of page-locked memory before the stream was waited for.
cudaError_t cudaMemcpyAsync(void* target, const void* source, std::size_t bytes, cudaMemcpyKind direction,
                            cudaStream_t stream) {
  const Kind from = kind_of(source), to = kind_of(target);
  if (!is(direction, from, to)) return cudaErrorInvalidMemcpyDirection;
  if (is_captured(stream) && (from == Kind::kPageable || to == Kind::kPageable))
    return cudaErrorStreamCaptureUnsupported;  // nobody could say what is there when it is repeated
  if (from == Kind::kPageable) {
    std::unique_ptr<void, Free> copy(std::malloc(bytes));
    std::memcpy(copy.get(), source, bytes);
    enqueue(stream, [target, copy = std::move(copy), bytes] { std::memcpy(target, copy.get(), bytes); });
  } else {
    enqueue(stream, [target, source, bytes] { std::memmove(target, source, bytes); });
  }
  if (to == Kind::kPageable) wait_for(stream);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* target, int value, std::size_t bytes, cudaStream_t stream) {
  enqueue(stream, [target, value, bytes] { std::memset(target, value, bytes); });
  return cudaSuccess;
}
}
