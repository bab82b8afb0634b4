// SPDX-License-Identifier: MIT
#include "kernels/typed_view.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "kernels/nn/elementwise.h"
#include "tests/support/devices.h"
#include "tests/support/typed_values.h"

namespace dragonn::kernels {
namespace {

using Values = std::vector<float>;

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("a typed view gives its elements in their own type only") {
    Values floats{1, 2, 3};
    const TypedView<float> wide{View<float>(floats)};
    CHECK(wide.type() == ElementType::kFloat32);
    CHECK(wide.host()[1] == 2);
    CHECK_THROWS(wide.as<Bf16>());
    const TypedView<const float> constant = wide;
    CHECK(constant.subview(1, 2).data() == floats.data() + 1);
    CHECK_THROWS(constant.subview(2, 2));
    std::vector<Bf16> halves{to_bf16(1), to_bf16(2)};
    const TypedView<float> narrow(halves.data(), 2, ElementType::kBf16, {});
    CHECK(narrow.as<Bf16>() == halves.data());
    CHECK(narrow.subview(1, 1).as<Bf16>()[0] == to_bf16(2));
    CHECK_THROWS(narrow.data());
    CHECK_THROWS(narrow.floats());
    CHECK(TypedView<float>(nullptr, 0, ElementType::kBf16, {}).data() == nullptr);  // what is absent has any type
    CHECK(floats_of(ElementType::kBf16, 5) == 3);
    CHECK(floats_of(ElementType::kFloat32, 5) == 5);
  }

  DRAGONN_DEVICE_TEST("conversions round to the nearest bf16 wherever arrays begin") {
    if (device.is_cpu()) return;  // which has float32 only
    constexpr std::size_t kSize = 1001;
    Values values(kSize);
    for (std::size_t i = 0; i < kSize; ++i)
      values[i] = std::ldexp(1.0f + 0.003f * static_cast<float>(i), -20 + static_cast<int>(i % 40));
    values[5] = std::numeric_limits<float>::infinity();
    values[6] = -0.0f;
    values[7] = std::numeric_limits<float>::quiet_NaN();
    const Buffer<float> source = dragonn::test::on_device(values, device);
    Buffer<Bf16> target(kSize + 8, device);
    for (const std::size_t offset : {0, 1, 8})
      for (const std::size_t count : {kSize, std::size_t{8}, std::size_t{3}}) {
        const TypedView<float> narrow(target.data() + offset, count, ElementType::kBf16, device);
        convert(source.view().subview(kSize - count, count), narrow);
        const Values back = dragonn::test::values_of(narrow);
        for (std::size_t i = 0; i < count; ++i) {
          const float expected = from_bf16(to_bf16(values[kSize - count + i]));
          CHECK((back[i] == expected || (std::isnan(back[i]) && std::isnan(expected))));
        }
      }
  }
}

}  // namespace dragonn::kernels
