// SPDX-License-Identifier: MIT
/// Device tests: one body of a test for every device, the CPU and, if the build has CUDA, a GPU.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "core/buffer.h"
#include "kernels/devices.h"

/// DRAGONN_DEVICE_TEST("name") { ... `device` ... } makes the test case "name", and in a build with CUDA the case
/// "gpu: name", which reports that it is skipped if there is no GPU (`test_FOLDER -tc="gpu:*"` runs these alone).
#define DRAGONN_DEVICE_TEST(NAME) DRAGONN_DEVICE_TEST_(NAME, DOCTEST_ANONYMOUS(dragonn_device_test_))
#define DRAGONN_DEVICE_TEST_(NAME, BODY)             \
  static void BODY(const ::dragonn::Device& device); \
  TEST_CASE(NAME) {                                  \
    BODY(::dragonn::Device{});                       \
  }                                                  \
  DRAGONN_GPU_CASE(NAME, BODY)                       \
  static void BODY([[maybe_unused]] const ::dragonn::Device& device)

#ifdef DRAGONN_WITH_CUDA
#define DRAGONN_GPU_CASE(NAME, BODY)                          \
  TEST_CASE("gpu: " NAME) {                                   \
    if (::dragonn::test::gpu_is_missing()) return;            \
    BODY(::dragonn::Device{::dragonn::DeviceType::kCuda, 0}); \
  }
#else
#define DRAGONN_GPU_CASE(NAME, BODY)
#endif

namespace dragonn::test {

/// Returns whether there is no GPU, and reports that as a skipped test does.
inline bool gpu_is_missing() {
  const std::string obstacle = kernels::device_obstacle(DeviceType::kCuda);
  if (!obstacle.empty()) MESSAGE("skipped: ", obstacle);
  return !obstacle.empty();
}

/// A buffer on `device` with these values.
template <class T>
Buffer<T> on_device(const std::vector<T>& values, const Device& device) {
  Buffer<T> buffer(values.size(), device);
  kernels::transfer(View<const T>(values), buffer.view());
  return buffer;
}

/// Makes a buffer of `size` floats that are all NaN, so that unwritten output shows.
inline Buffer<float> poisoned(std::size_t size, const Device& device) {
  return on_device(std::vector<float>(size, std::numeric_limits<float>::quiet_NaN()), device);
}

/// The values of a view on any device.
template <class T>
std::vector<std::remove_const_t<T>> to_host(View<T> values) {
  std::vector<std::remove_const_t<T>> copy(values.size());
  kernels::transfer(View<const T>(values), View<std::remove_const_t<T>>(copy));
  return copy;
}

}  // namespace dragonn::test
