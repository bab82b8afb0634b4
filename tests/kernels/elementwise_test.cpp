// SPDX-License-Identifier: MIT
#include "kernels/nn/elementwise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "core/buffer.h"
#include "kernels/devices.h"
#include "tests/support/devices.h"

namespace dragonn::kernels {
namespace {

using dragonn::test::on_device;
using dragonn::test::poisoned;
using dragonn::test::to_host;
using Values = std::vector<float>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Sizes around those of vectors and blocks.
constexpr std::size_t kSizes[] = {1, 3, 16, 255, 257, 100'003};

Values ramp(std::size_t size, float scale) {
  Values values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = scale * (static_cast<float>(i % 19) - 9);
  return values;
}

}  // namespace

TEST_SUITE("kernels") {
  DRAGONN_DEVICE_TEST("sums of arrays, with and without ReLU, are exact") {
    for (const std::size_t size : kSizes) {
      const Values a = ramp(size, 0.5f), b = ramp(size + 1, 0.25f);
      const Buffer<float> left = on_device(a, device), right = on_device(Values(b.begin(), b.end() - 1), device);
      Buffer<float> sum = poisoned(size, device), clipped = poisoned(size, device);
      add(left.view(), right.view(), sum.view());
      add_relu(left.view(), right.view(), clipped.view());
      const Values sums = to_host(sum.view()), clips = to_host(clipped.view());
      for (std::size_t i = 0; i < size; ++i) {
        REQUIRE(sums[i] == a[i] + b[i]);
        REQUIRE(clips[i] == std::max(0.0f, a[i] + b[i]));
      }
    }
  }

  DRAGONN_DEVICE_TEST("arrays may begin anywhere") {
    const Values a = ramp(1001, 0.5f);
    const Buffer<float> input = on_device(a, device);
    for (const std::size_t offset : {std::size_t{1}, std::size_t{4}}) {
      Buffer<float> sum = poisoned(1001, device);
      add(input.view().subview(offset, 900), input.view().subview(3, 900), sum.view().subview(offset, 900));
      fill(9, sum.view().subview(0, offset));
      const Values sums = to_host(sum.view());
      for (std::size_t i = 0; i < 900; ++i) REQUIRE(sums[offset + i] == a[offset + i] + a[3 + i]);
      CHECK(sums[offset - 1] == 9);
      CHECK(std::isnan(sums[offset + 900]));
    }
  }

  DRAGONN_DEVICE_TEST("a ReLU keeps a NaN, and its gradient passes where the output is positive") {
    const Buffer<float> a = on_device(Values{kNaN, -1, 2, 0}, device), b = on_device(Values{1, 0, 0, 0}, device);
    Buffer<float> output = poisoned(4, device);
    add_relu(a.view(), b.view(), output.view());
    const Values values = to_host(output.view());
    CHECK(std::isnan(values[0]));
    CHECK(values[1] == 0);
    CHECK(values[2] == 2);
    Buffer<float> gradient = on_device(Values{1, 2, 3, 4}, device);
    const Buffer<float> outputs = on_device(Values{1, 0, 2, 0}, device);
    relu_backward(outputs.view(), gradient.view(), gradient.view());
    CHECK(to_host(gradient.view()) == Values{1, 0, 3, 0});
  }

  DRAGONN_DEVICE_TEST("a fill writes every element, and a copy moves them between the device and the host") {
    for (const std::size_t size : kSizes) {
      Buffer<float> there = poisoned(size, device);
      fill(2.5f, there.view());
      CHECK(to_host(there.view()) == Values(size, 2.5f));
      const Values values = ramp(size, 1);
      copy(View<const float>(values), there.view());
      Values back(size);
      copy(there.view(), View<float>(back));
      CHECK(back == values);
    }
  }

  DRAGONN_DEVICE_TEST("operations on arrays of unequal sizes are refused") {
    const Buffer<float> three = on_device(Values{1, 2, 3}, device);
    Buffer<float> two = poisoned(2, device);
    CHECK_THROWS_AS(add(three.view(), three.view(), two.view()), ShapeError);
    CHECK_THROWS_AS(copy(three.view(), two.view()), ShapeError);
  }

  DRAGONN_DEVICE_TEST("a mirror shows the values of now") {
    Buffer<float> there = on_device(Values{1, 2}, device);
    HostMirror<float> now_and_then, often(device);
    for (HostMirror<float>* mirror : {&now_and_then, &often}) {
      fill(2, there.view());
      CHECK(mirror->of(there.view())[1] == 2);
      fill(7, there.view());
      CHECK(mirror->of(there.view())[0] == 7);
    }
  }

  DRAGONN_DEVICE_TEST("copies that are started one after the other are all there when the device was waited for") {
    const std::size_t size = 1000;
    Values values(size);
    std::iota(values.begin(), values.end(), 0.0f);
    Buffer<float> source(size, host_memory_for(device)), target(size, host_memory_for(device));
    CHECK(source.device().is_cpu());
    std::ranges::copy(values, source.data());
    const Buffer<float> zeros = on_device(Values(size), device);
    Buffer<float> there = poisoned(size, device), back = poisoned(size, device);
    start_transfer(View<const float>(source.view()), there.view());
    add(there.view(), zeros.view(), back.view());
    start_transfer(View<const float>(back.view()), target.view());
    synchronize(device);
    CHECK(Values(target.data(), target.data() + size) == values);
  }

  TEST_CASE("a device that the build or the machine lacks is named with the reason") {
    const Device missing{DeviceType::kCuda, 99};
    CHECK(device_count(DeviceType::kCpu) == 1);
    CHECK(device_count(DeviceType::kCuda) <= 99);
    CHECK(device_obstacle(DeviceType::kCpu).empty());
    CHECK((device_count(DeviceType::kCuda) > 0) == device_obstacle(DeviceType::kCuda).empty());
    CHECK_THROWS_AS(Buffer<float>(3, missing), DeviceError);
    CHECK_THROWS_AS(synchronize(missing), DeviceError);
  }
}

}  // namespace dragonn::kernels
