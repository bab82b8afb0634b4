// SPDX-License-Identifier: MIT
#include "optim/clip.h"

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/optim/optimizer_fixture.h"

namespace dragonn::optim {
namespace {

TEST_SUITE("optim") {
  DRAGONN_DEVICE_TEST("squared norms are exact on integers, dense and sparse") {
    std::vector<float> values(101);
    double expected = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i) - 50;
      expected += static_cast<double>(values[i]) * values[i];
    }
    CHECK(squared_norm(on_device(values, device).view()) == expected);
    CHECK(squared_norm(on_device(sparse_of({{3, 3.0f}, {9, -4.0f}}), device).values.view()) == 25.0);
    CHECK(squared_norm(SparseVector(device).values.view()) == 0.0);
  }

  DRAGONN_DEVICE_TEST("squares that overflow float32 do not overflow the norm") {
    const std::vector<float> values(4, 1e30f);
    const double norm = std::sqrt(squared_norm(on_device(values, device).view()));
    CHECK(norm == doctest::Approx(2e30).epsilon(1e-6));
  }

  TEST_CASE("local clipping divides the limit by the root of the ranks") {
    // Gradient [3, 4], limit 5, 4 ranks: clipped to [1.5, 2], up to the guard of 1e-6 on a norm of 5.
    const float scale = local_clip_scale(5.0, 5.0, 4);
    CHECK(scale * 3 == doctest::Approx(1.5).epsilon(1e-6));
    CHECK(scale * 4 == doctest::Approx(2.0).epsilon(1e-6));
    CHECK(local_clip_scale(5.0, 5.0, 1) == clip_scale(5.0, 5.0));
  }

  TEST_CASE("gradients below the limit stay as they are") {
    CHECK(clip_scale(0.0, 1.0) == 1.0f);
    CHECK(clip_scale(0.5, 1.0) == 1.0f);
    CHECK(clip_scale(2.0, 1.0) < 1.0f);
  }

  TEST_CASE("a norm that is not finite leaves the gradient to the finite check") {
    CHECK(clip_scale(std::numeric_limits<double>::infinity(), 1.0) == 1.0f);
    CHECK(clip_scale(std::numeric_limits<double>::quiet_NaN(), 1.0) == 1.0f);
  }

  TEST_CASE("a limit of zero is refused") {
    CHECK_THROWS_AS(clip_scale(1.0, 0.0), Error);
  }
}

}  // namespace
}  // namespace dragonn::optim
