// SPDX-License-Identifier: MIT
#include "core/buffer.h"

#include <cstdint>
#include <cstdlib>
#include <utility>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/sparse_vector.h"

namespace dragonn {
namespace {

constexpr Device kCopier{DeviceType::kCuda, 3};

void* allocate_for_copier(std::size_t bytes, const Device& keeper) {
  CHECK(keeper == kCopier);
  return std::malloc(bytes);
}

/// Memory of any other keeper would leak, which the sanitizer reports.
void release_for_copier(void* memory, const Device& keeper) noexcept {
  if (keeper == kCopier) std::free(memory);
}

TEST_SUITE("core") {
  TEST_CASE("a buffer is aligned to a cache line and keeps its memory while it fits") {
    Buffer<float> buffer(100);
    const float* memory = buffer.data();
    CHECK(reinterpret_cast<std::uintptr_t>(memory) % 64 == 0);
    buffer.host()[10] = 3;
    buffer.truncate(11);
    CHECK(buffer.size() == 11);
    CHECK(buffer.host()[10] == 3);
    buffer.resize_discard(0);
    buffer.resize_discard(100);
    CHECK(buffer.data() == memory);
    CHECK_THROWS_AS(buffer.truncate(101), Error);
  }

  TEST_CASE("a growing buffer grows by half at least") {
    Buffer<float> buffer(100);
    buffer.resize_discard(101);
    CHECK(buffer.size() == 101);
    CHECK(buffer.capacity() == 150);
    buffer.resize_discard(1000);
    CHECK(buffer.capacity() == 1000);
  }

  TEST_CASE("host memory for a device's copies is had from that device, and is host memory") {
    const MemoryFunctions before = register_host_memory(DeviceType::kCuda, {allocate_for_copier, release_for_copier});
    {
      SparseVector entries(host_memory_for(kCopier));
      entries.resize_discard(2);
      entries.values.host()[1] = 5;
      CHECK(entries.device().is_cpu());
      SparseVector moved = std::move(entries);
      CHECK(moved.values.host()[1] == 5);
      moved.resize_discard(100);
    }
    register_host_memory(DeviceType::kCuda, {});
    CHECK_THROWS_WITH_AS(Buffer<float>(1, host_memory_for(kCopier)), "this build has no memory for device cuda:3",
                         DeviceError);
    register_host_memory(DeviceType::kCuda, before);
    CHECK(Buffer<float>(1, host_memory_for({})).host().size() == 1);
  }

  TEST_CASE("moving a buffer hands its memory over") {
    Buffer<int> from(4);
    const int* memory = from.data();
    Buffer<int> to(std::move(from));
    CHECK(to.data() == memory);
    CHECK(to.size() == 4);
    Buffer<int> assigned(2);
    assigned = std::move(to);
    CHECK(assigned.data() == memory);
  }

  TEST_CASE("host code cannot look into memory of another device") {
    float value = 0;
    const View<float> view(&value, 1, Device{DeviceType::kCuda, 1});
    CHECK_THROWS_WITH_AS(view.host(), "host access to memory of device cuda:1", DeviceError);
  }

  TEST_CASE("a subview stays inside of its view") {
    Buffer<float> buffer(8);
    CHECK(buffer.view().subview(8, 0).empty());
    CHECK(buffer.view().subview(3, 5).data() == buffer.data() + 3);
    CHECK_THROWS_AS(buffer.view().subview(4, 5), Error);
    CHECK_THROWS_AS(buffer.view().subview(9, 0), Error);
    CHECK_THROWS_AS(buffer.view().subview(1, static_cast<std::size_t>(-1)), Error);
  }

  TEST_CASE("a sparse vector resizes both of its lists") {
    SparseVector entries;
    CHECK(entries.empty());
    entries.resize_discard(3);
    CHECK(entries.indices.size() == 3);
    CHECK(entries.values.size() == 3);
    entries.truncate(1);
    CHECK(entries.size() == 1);
    entries.clear();
    CHECK(entries.values.size() == 0);
  }
}

}  // namespace
}  // namespace dragonn
