// SPDX-License-Identifier: MIT
#include "kernels/gradient/tile_transform.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "core/rng.h"
#include "tests/support/cosines.h"
#include "tests/support/devices.h"
#include "tests/support/thread_counts.h"

using namespace dragonn;
using namespace dragonn::kernels;

namespace {

using Matrices = std::vector<TiledMatrix>;

const Matrices kLayout{{.rows = 128, .columns = 192, .tile_rows = 64, .tile_columns = 64},
                       {.rows = 29, .columns = 39, .tile_rows = 29, .tile_columns = 13},
                       {.rows = 0, .columns = 1},
                       {.rows = 3, .columns = 53, .tile_rows = 1, .tile_columns = 53},
                       {.rows = 128, .columns = 5, .tile_rows = 128, .tile_columns = 1},
                       {.rows = 7, .columns = 1}};

std::vector<float> transformed(const std::vector<float>& values, const Matrices& matrices, TransformDirection direction,
                               const Device& device = {}) {
  const CosineBases bases(matrices, device);
  const Buffer<float> place = dragonn::test::on_device(values, device);
  Buffer<float> result = dragonn::test::poisoned(values.size(), device);
  transform_tiles(place.view(), matrices, bases, direction, result.view());
  return dragonn::test::to_host(result.view());
}

std::vector<float> normals(const Matrices& matrices) {
  std::size_t size = 0;
  for (const TiledMatrix& matrix : matrices) size += matrix.size();
  Rng rng(3, "tile transform test");
  std::vector<float> values(size);
  for (float& value : values) value = rng.normal();
  return values;
}

std::vector<double> reference(const std::vector<float>& values, const Matrices& matrices, bool inverse) {
  std::vector<double> result;
  auto begin = values.begin();
  for (const TiledMatrix& matrix : matrices) {
    const auto end = begin + static_cast<std::ptrdiff_t>(matrix.size());
    const std::vector<double> part = dragonn::test::transformed_tiles({begin, end}, matrix.rows, matrix.columns,
                                                                      matrix.tile_rows, matrix.tile_columns, inverse);
    result.insert(result.end(), part.begin(), part.end());
    begin = end;
  }
  return result;
}

template <class T>
double largest_difference(const std::vector<float>& values, const std::vector<T>& expected) {
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(values[i]) - static_cast<double>(expected[i])));
  return largest;
}

// Sums of up to 128 terms of size 1, twice: their roundings add up like a random walk.
constexpr double kTolerance = 1e-5;

}  // namespace

TEST_SUITE("kernels") {
  DRAGONN_DEVICE_TEST("the transform of a tile of 2 x 2 and of a piece of 4, by hand") {
    const Matrices square{{.rows = 2, .columns = 2, .tile_rows = 2, .tile_columns = 2}};
    const Matrices piece{{.rows = 1, .columns = 4, .tile_columns = 4}};
    const auto forward = TransformDirection::kForward;
    CHECK(largest_difference(transformed({1, 2, 3, 4}, square, forward, device), std::vector{5, -1, -2, 0}) < 1e-6);
    CHECK(largest_difference(transformed({1, 2, 3, 4}, piece, forward, device),
                             std::vector<double>{5, -2.2304425, 0, -0.1585127}) < 1e-6);
  }

  DRAGONN_DEVICE_TEST("tiles are transformed as the definition says in float64, and back") {
    const std::vector<float> values = normals(kLayout);
    const auto forward = transformed(values, kLayout, TransformDirection::kForward, device);
    CHECK(largest_difference(forward, reference(values, kLayout, false)) < kTolerance);
    const auto inverse = transformed(values, kLayout, TransformDirection::kInverse, device);
    CHECK(largest_difference(inverse, reference(values, kLayout, true)) < kTolerance);
    CHECK(largest_difference(transformed(forward, kLayout, TransformDirection::kInverse, device), values) < kTolerance);
  }

  DRAGONN_DEVICE_TEST("a transform has the same bits on every device and number of threads") {
    const std::vector<float> values = normals(kLayout);
    const auto expected = transformed(values, kLayout, TransformDirection::kForward);
    CHECK(transformed(values, kLayout, TransformDirection::kForward, device) == expected);
    const int threads = omp_get_max_threads();
    for (const int other : dragonn::test::kThreadCounts) {
      omp_set_num_threads(other);
      CHECK(transformed(values, kLayout, TransformDirection::kForward) == expected);
    }
    omp_set_num_threads(threads);
  }

  TEST_CASE("a transform keeps the length of every vector") {
    const std::vector<float> values = normals(kLayout);
    const auto squares = [](const std::vector<float>& vector) {
      double sum = 0;
      for (const float value : vector) sum += static_cast<double>(value) * value;
      return sum;
    };
    CHECK(squares(transformed(values, kLayout, TransformDirection::kForward)) ==
          doctest::Approx(squares(values)).epsilon(1e-6));
  }

  TEST_CASE("a transform of tiles that do not fill their matrix is refused") {
    CHECK_THROWS(transformed(std::vector<float>(12), {{.rows = 3, .columns = 4, .tile_columns = 3}},
                             TransformDirection::kForward));
    CHECK_THROWS(transformed(std::vector<float>(12), {{.rows = 2, .columns = 4, .tile_columns = 4}},
                             TransformDirection::kForward));
  }
}
