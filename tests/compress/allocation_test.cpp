// SPDX-License-Identifier: MIT
#include <atomic>
#include <cstdlib>
#include <new>

#include <doctest/doctest.h>

#include "core/rng.h"
#include "tests/compress/support.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

std::atomic<std::size_t> allocations = 0;  // NOLINT: counts for the replaced operator new, which can take no argument

MemoryFunctions uncounted;  // NOLINT: likewise, for the memory of buffers

void* allocate_counted(std::size_t bytes, const Device& device) {
  ++allocations;
  return uncounted.allocate(bytes, device);
}

/// Counts what buffers allocate while it lives.
class BufferCounter {
 public:
  BufferCounter() {
    uncounted = memory_functions(Device{});
    register_memory(DeviceType::kCpu, {allocate_counted, uncounted.release});
  }
  ~BufferCounter() { register_memory(DeviceType::kCpu, uncounted); }
  BufferCounter(const BufferCounter&) = delete;
  BufferCounter& operator=(const BufferCounter&) = delete;
};

}  // namespace

// Not inlined: GCC would see free() meet a pointer from operator new, and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

TEST_SUITE("compress") {
  TEST_CASE("no pair allocates after its first step, whatever the gradient and the density turn into") {
    constexpr std::size_t kSize = 20000;
    std::vector<std::vector<float>> gradients(8, std::vector<float>(kSize));
    for (std::size_t step = 0; step < gradients.size(); ++step) {
      Rng rng(step, "allocation test");
      // From few non-zeros to many, of ever larger values.
      for (float& value : gradients[step]) {
        if (rng.uniform() < 0.2f * static_cast<float>(step)) value = rng.normal() * static_cast<float>(step + 1);
      }
    }
    const BufferCounter counter;
    for (const std::string& sparsifier_name : Registry<SparsifierEntry>::instance().names()) {
      for (const std::string& memory_name : Registry<MemoryEntry>::instance().names()) {
        const auto sparsifier = make_sparsifier(sparsifier_name, kSize);
        const auto memory = make_memory(memory_name, kSize);
        SparseVector selected;
        std::size_t before = 0;
        for (std::size_t step = 0; step < gradients.size(); ++step) {
          if (step == 1) before = allocations;
          const SelectContext context = context_for(kSize, step < 4 ? 0.01 : 0.3, step);
          select_step(*sparsifier, *memory, context, gradients[step], selected);
          memory->settle({.contributed = selected.indices.view()});
        }
        const std::size_t after = allocations;
        CAPTURE(sparsifier_name);
        CAPTURE(memory_name);
        CHECK(after == before);
      }
    }
  }
}
