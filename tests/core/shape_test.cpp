// SPDX-License-Identifier: MIT
#include "core/shape.h"

#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"

namespace dragonn {
namespace {

TEST_SUITE("core") {
  TEST_CASE("a shape's size is the product of its extents, 1 without axes and 0 with an empty one") {
    CHECK(Shape{}.size() == 1);
    CHECK(Shape{32, 3, 3, 16}.size() == 32 * 3 * 3 * 16);
    CHECK(Shape{4, 0, 2}.size() == 0);
    CHECK(Shape{65536, 65536}.size() == 1ull << 32);
  }

  TEST_CASE("shapes are equal when rank and extents are") {
    CHECK(Shape{2, 3} == Shape{2, 3});
    CHECK(Shape{2, 3} != Shape{3, 2});
    CHECK(Shape{2, 3} != Shape{2, 3, 1});
    CHECK(Shape{0} != Shape{});
  }

  TEST_CASE("with_batch changes the outermost extent only") {
    CHECK(Shape{1, 8, 8, 3}.with_batch(32) == Shape{32, 8, 8, 3});
    CHECK_THROWS_AS(Shape{}.with_batch(1), ShapeError);
  }

  TEST_CASE("impossible shapes and axes are errors that show the shape") {
    CHECK_THROWS_WITH_AS((Shape{2, -3}), "negative extent in shape [2, -3]", ShapeError);
    CHECK_THROWS_AS(Shape(std::span<const std::int64_t>(std::vector<std::int64_t>(7, 1))), ShapeError);
    const Shape shape{2, 3};
    CHECK_THROWS_WITH_AS(shape[2], "axis 2 of shape [2, 3]", ShapeError);
  }
}

}  // namespace
}  // namespace dragonn
