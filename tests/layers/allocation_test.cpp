// SPDX-License-Identifier: MIT
/// Counts heap allocations of a training step: replaces operator new in this test program.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <new>

#include <doctest/doctest.h>
#include <omp.h>

#include "layers/graph.h"
#include "layers/network.h"
#include "tests/layers/graph_harness.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

/// Whether an address lies in oneDNN, whose own allocations are not ours to avoid.
bool in_onednn(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr && std::strstr(info.dli_fname, "libdnnl") != nullptr;
}

void* allocate(std::size_t size, std::size_t alignment, const void* caller) {
  if (counting.load() && !in_onednn(caller)) ++allocations;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) {
  return allocate(size, alignof(std::max_align_t), __builtin_return_address(0));
}
void* operator new[](std::size_t size) {
  return allocate(size, alignof(std::max_align_t), __builtin_return_address(0));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
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

namespace dragonn::layers {

TEST_SUITE("layers") {
  TEST_CASE("a training step allocates nothing after the first two") {
    omp_set_num_threads(1);
    for (const char* name : {"mlp", "resnet20", "vgg11"}) {
      CAPTURE(name);
      const ModelEntry& entry = Registry<ModelEntry>::instance().at(name);
      Network network(entry.make(Settings(entry.settings), {{20, 20, 3}, 10}), 0.1);
      network.initialize(1);
      const std::vector<float> inputs = test::random_values(4 * 1200, 1);
      const std::vector<std::int32_t> labels{0, 1, 2, 3};
      std::size_t ready = 0;
      const GradientReady count_ready = [&](ParameterId) { ++ready; };
      for (std::uint64_t step = 0; step < 5; ++step) {
        counting = step >= 2;
        network.forward(View<const float>(inputs), View<const std::int32_t>(labels), 4, Mode::kTrain, step);
        network.backward(count_ready);
      }
      counting = false;
      CHECK(allocations.exchange(0) == 0);
      CHECK(ready == 5 * network.arena().parameters().size());
    }
  }
}

}  // namespace dragonn::layers
