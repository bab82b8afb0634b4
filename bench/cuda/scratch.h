// SPDX-License-Identifier: MIT
/// Room: the temporary memory of baselines on a GPU.
#pragma once

#include "bench/selection.h"
#include "kernels/cuda/runtime.h"

namespace dragonn::bench {

/// Memory that is kept from call to call.
struct Scratch {
  explicit Scratch(const Device& device) : bytes(0, device), words(0, device), floats(0, device), count(1, device) {}
  Buffer<std::byte> bytes;
  Buffer<std::uint32_t> words;
  Buffer<float> floats;
  Buffer<std::uint32_t> count;
};
inline Scratch& scratch_on(const Device& device) {
  thread_local Scratch scratch(device);
  return scratch;
}

/// Calls run(memory, bytes) as CUB wants it: once for the number of bytes, once with the memory.
template <class Run>
void with_storage(Scratch& scratch, const char* operation, const Run& run) {
  std::size_t bytes = 0;
  kernels::cuda::check(run(nullptr, bytes), operation);
  scratch.bytes.resize_discard(bytes);
  kernels::cuda::check(run(static_cast<void*>(scratch.bytes.data()), bytes), operation);
}

inline std::uint32_t read(kernels::cuda::Context& here, const std::uint32_t* value) {
  kernels::cuda::check(
      cudaMemcpyAsync(here.host_results(), value, sizeof *value, cudaMemcpyDeviceToHost, here.stream()),
      "cudaMemcpyAsync");
  here.synchronize();
  return *static_cast<const std::uint32_t*>(here.host_results());
}

inline BaselineEntry gpu_baseline(const char* name, const char* summary,
                                  void (*select)(const Subject&, SparseVector&)) {
  BaselineEntry entry;
  entry.name = name;
  entry.summary = summary;
  entry.device = DeviceType::kCuda;
  entry.select = select;
  return entry;
}

}  // namespace dragonn::bench
