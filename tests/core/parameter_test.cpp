// SPDX-License-Identifier: MIT
#include "core/parameter.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"

namespace dragonn {
namespace {

/// Two layers, each with a matrix, a bias and the second with a scale.
ParameterArena example() {
  ParameterArena arena;
  arena.declare("first.weight", {4, 3}, ParameterRole::kWeight);
  arena.declare("first.bias", {3}, ParameterRole::kBias);
  arena.declare("second.weight", {3, 1, 1, 5}, ParameterRole::kWeight);
  arena.declare("second.bias", {5}, ParameterRole::kBias);
  arena.declare("second.scale", {5}, ParameterRole::kNormalization);
  return arena;
}

TEST_SUITE("core") {
  TEST_CASE("the arena holds the matrices first, then the vectors, each last declared first, without gaps") {
    ParameterArena arena = example();
    arena.allocate();
    CHECK(arena.layout() == std::vector<ParameterId>{2, 0, 4, 3, 1});
    CHECK(arena.matrix_size() == 15 + 12);
    CHECK(arena.size() == 15 + 12 + 5 + 5 + 3);
    std::size_t offset = 0;
    for (ParameterId id : arena.layout()) {
      CHECK(arena[id].offset == offset);
      CHECK(arena[id].size == arena[id].shape.size());
      offset += arena[id].size;
    }
    CHECK(offset == arena.size());
  }

  TEST_CASE("allocated values and gradients are zero, and a parameter is a view of its slice") {
    ParameterArena arena = example();
    arena.allocate();
    const auto is_zero = [](float value) { return value == 0.0f; };
    CHECK(std::ranges::all_of(arena.values().host(), is_zero));
    CHECK(std::ranges::all_of(arena.gradients().host(), is_zero));
    for (ParameterId id = 0; id < arena.parameters().size(); ++id) {
      CHECK(arena.value(id).data() == arena.values().data() + arena[id].offset);
      CHECK(arena.gradient(id).data() == arena.gradients().data() + arena[id].offset);
      CHECK(arena.gradient(id).size() == arena[id].size);
    }
  }

  TEST_CASE("a dry run has the layout of a real one and no memory") {
    ParameterArena planned = example(), real = example();
    planned.lay_out();
    real.allocate();
    CHECK(planned.layout() == real.layout());
    CHECK(planned.size() == real.size());
    CHECK(planned.values().empty());
  }

  TEST_CASE("a name taken twice and a declaration after the layout are errors") {
    ParameterArena arena = example();
    CHECK_THROWS_AS(arena.declare("first.bias", {3}, ParameterRole::kBias), Error);
    arena.lay_out();
    CHECK_THROWS_AS(arena.declare("third.bias", {3}, ParameterRole::kBias), Error);
  }

  TEST_CASE("models of only vectors, or of nothing, have a layout") {
    ParameterArena vectors, nothing;
    vectors.declare("bias", {2}, ParameterRole::kBias);
    vectors.allocate();
    nothing.allocate();
    CHECK(vectors.matrix_size() == 0);
    CHECK(vectors.size() == 2);
    CHECK(nothing.size() == 0);
  }
}

}  // namespace
}  // namespace dragonn
