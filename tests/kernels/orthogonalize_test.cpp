// SPDX-License-Identifier: MIT
#include "kernels/nn/orthogonalize.h"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/rng.h"
#include "tests/support/devices.h"

namespace dragonn::kernels {
namespace {

using test::on_device;
using test::to_host;

/// The largest and the smallest squared singular value of a matrix with two rows, row-major.
std::pair<double, double> squared_singular_values(const std::vector<float>& x) {
  const std::size_t columns = x.size() / 2;
  double a = 0, b = 0, c = 0;  // of the Gram matrix [a b; b c]
  for (std::size_t i = 0; i < columns; ++i) {
    a += static_cast<double>(x[i]) * x[i];
    b += static_cast<double>(x[i]) * x[columns + i];
    c += static_cast<double>(x[columns + i]) * x[columns + i];
  }
  const double root = std::sqrt((a - c) * (a - c) / 4 + b * b);
  return {(a + c) / 2 + root, (a + c) / 2 - root};
}

TEST_SUITE("kernels") {
  DRAGONN_DEVICE_TEST("orthogonalize brings singular values near 1, after an odd and an even number of steps") {
    constexpr std::int64_t kColumns = 9;
    Rng rng(1, "test");
    std::vector<float> start(2 * kColumns);
    for (float& value : start) value = rng.normal();
    for (int steps : {5, 6}) {
      const OrthogonalizeSpec spec{2, kColumns, steps};
      Buffer<float> matrix = on_device(start, device), scratch = test::poisoned(spec.scratch_floats(), device);
      orthogonalize(spec, 0.1f, matrix.view(), scratch.view());  // the norm is about 4
      const auto [largest, smallest] = squared_singular_values(to_host(matrix.view()));
      CHECK(std::sqrt(largest) < 1.21);
      CHECK(std::sqrt(smallest) > 0.67);
    }
  }

  DRAGONN_DEVICE_TEST("orthogonalize leaves zeros, and refuses sizes that do not fit") {
    const OrthogonalizeSpec spec{4, 3, 5};
    Buffer<float> matrix = on_device(std::vector<float>(12, 0.0f), device);
    Buffer<float> scratch = test::poisoned(spec.scratch_floats(), device);
    orthogonalize(spec, 1, matrix.view(), scratch.view());
    CHECK(to_host(matrix.view()) == std::vector<float>(12, 0.0f));
    CHECK_THROWS_AS(orthogonalize(spec, 1, matrix.view().subview(0, 11), scratch.view()), ShapeError);
    CHECK_THROWS_AS(orthogonalize(spec, 1, matrix.view(), scratch.view().subview(1, 29)), ShapeError);
  }
}

}  // namespace
}  // namespace dragonn::kernels
