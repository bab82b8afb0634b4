// SPDX-License-Identifier: MIT
/// Tests of the memory of a GPU, and the host's for its copies: the error when it runs out.
#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include "core/buffer.h"
#include "core/error.h"
#include "core/memory_ledger.h"
#include "tests/support/devices.h"

#ifdef DRAGONN_WITH_CUDA
namespace dragonn::kernels {

TEST_SUITE("kernels") {
  TEST_CASE("gpu: out of memory says who asked for how much for what, and what holds the rest") {
    if (test::gpu_is_missing()) return;
    const Device device{DeviceType::kCuda, 0};
    const ScopedRank rank(2);
    const MemoryLabel held("parameters");
    const Buffer<std::byte> parameters(12345, device);
    const MemoryLabel wanted("activations");
    std::string said;
    try {
      const Buffer<std::byte> activations(std::size_t{1} << 50, device);
    } catch (const DeviceError& error) {
      said = error.what();
    }
    CAPTURE(said);
    CHECK(said.find("out of memory on rank 2, cuda:0: 1125899906842624 bytes asked for activations") == 0);
    CHECK(said.find("parameters 12345") != std::string::npos);
    CHECK_NOTHROW(Buffer<std::byte>(1000, device));  // the GPU is as good as before
  }

  TEST_CASE("gpu: out of page-locked memory tells what of it is held, not what is held on the GPU") {
    if (test::gpu_is_missing()) return;
    const Device device{DeviceType::kCuda, 0};
    const ScopedRank rank(1);
    const MemoryLabel held("messages of bucket 7");
    const Buffer<std::byte> on_gpu(54321, device), messages(12345, host_memory_for(device));
    const MemoryLabel wanted("batches");
    std::string said;
    try {
      const Buffer<std::byte> batches(std::size_t{1} << 50, host_memory_for(device));
    } catch (const DeviceError& error) {
      said = error.what();
    }
    CAPTURE(said);
    CHECK(said.find(
              "out of page-locked memory on rank 1, the host of cuda:0: 1125899906842624 bytes asked for batches") ==
          0);
    CHECK(said.find("messages of bucket 7 12345") != std::string::npos);
    CHECK(said.find("54321") == std::string::npos);
  }
}

}  // namespace dragonn::kernels
#endif
