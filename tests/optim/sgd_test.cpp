// SPDX-License-Identifier: MIT
#include <cmath>

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/optim/optimizer_fixture.h"

namespace dragonn::optim {
namespace {

const Overrides kPlain{{"momentum", 0.0}, {"weight_decay", 0.0}};

/// Runs one dense step over the whole arena.
void step(Optimizer& optimizer, ParameterArena& arena, const std::vector<float>& gradient, double rate,
          std::uint64_t index, float scale = 1.0f, bool momentum_applied = false) {
  const Buffer<float> own = on_device(gradient, arena.values().device());
  optimizer.begin_step(rate, index);
  optimizer.update({0, arena.size(), momentum_applied, false}, own.view(), scale);
}

TEST_SUITE("optim") {
  DRAGONN_DEVICE_TEST("plain SGD subtracts rate times scale times gradient") {
    const std::vector<float> start{1, -2, 3}, gradient{4, 8, -16};
    ParameterArena arena = arena_of(start, device);
    const auto sgd = make_optimizer("sgd", kPlain, arena);
    step(*sgd, arena, gradient, 0.5, 0, 0.25f);
    CHECK(copy(arena.values()) == std::vector<float>{0.5f, -3, 5});
  }

  DRAGONN_DEVICE_TEST("the first momentum step is the gradient, later ones accumulate") {
    const std::vector<float> start{0, 0}, gradient{2, -4};
    ParameterArena arena = arena_of(start, device);
    const auto sgd = make_optimizer("sgd", {{"momentum", 0.5}, {"weight_decay", 0.0}}, arena);
    step(*sgd, arena, gradient, 1.0, 0);
    CHECK(copy(arena.values()) == std::vector<float>{-2, 4});
    step(*sgd, arena, gradient, 1.0, 1);  // b = 0.5 * 2 + 2 = 3
    CHECK(copy(arena.values()) == std::vector<float>{-5, 10});
  }

  DRAGONN_DEVICE_TEST("Nesterov looks one momentum step ahead") {
    const std::vector<float> start{0}, gradient{2};
    ParameterArena arena = arena_of(start, device);
    const auto sgd = make_optimizer("sgd", {{"momentum", 0.5}, {"weight_decay", 0.0}, {"nesterov", true}}, arena);
    step(*sgd, arena, gradient, 1.0, 0);  // b = 2, step 2 + 1 = 3
    step(*sgd, arena, gradient, 1.0, 1);  // b = 3, step 2 + 1.5 = 3.5
    CHECK(copy(arena.values()) == std::vector<float>{-6.5f});
  }

  DRAGONN_DEVICE_TEST("weight decay enters before momentum") {
    const std::vector<float> start{8}, gradient{2};
    ParameterArena arena = arena_of(start, device);
    const auto sgd = make_optimizer("sgd", {{"momentum", 0.5}, {"weight_decay", 0.25}}, arena);
    step(*sgd, arena, gradient, 1.0, 0);  // d = 2 + 2, x = 4
    CHECK(copy(arena.values()) == std::vector<float>{4});
    step(*sgd, arena, gradient, 1.0, 1);  // d = 2 + 1 = 3, b = 5, x = -1
    CHECK(copy(arena.values()) == std::vector<float>{-1});
  }

  TEST_CASE("weight decay keeps its own momentum where the gradient's was applied before") {
    const std::vector<float> start{8}, gradient{2};
    SUBCASE("heavy ball") {
      ParameterArena arena = arena_of(start);
      const auto sgd = make_optimizer("sgd", {{"momentum", 0.5}, {"weight_decay", 0.25}}, arena);
      step(*sgd, arena, gradient, 1.0, 0, 1.0f, true);  // b = 2, x = 8 - (2 + 2)
      CHECK(copy(arena.values()) == std::vector<float>{4});
      step(*sgd, arena, gradient, 1.0, 1, 1.0f, true);  // b = 1 + 1, x = 4 - (2 + 2)
      CHECK(copy(arena.values()) == std::vector<float>{0});
    }
    SUBCASE("Nesterov") {
      ParameterArena arena = arena_of(start);
      const auto sgd = make_optimizer("sgd", {{"momentum", 0.5}, {"weight_decay", 0.25}, {"nesterov", true}}, arena);
      step(*sgd, arena, gradient, 1.0, 0, 1.0f, true);  // b = 2, x = 8 - (2 + 2 + 1)
      CHECK(copy(arena.values()) == std::vector<float>{3});
    }
  }

  DRAGONN_DEVICE_TEST("momentum applied before or by the optimizer gives the same run") {
    // Dyadic coefficients and small integers: every number below is exact.
    const std::vector<float> start{16, -32};
    ParameterArena together = arena_of(start, device), apart = arena_of(start, device);
    const Overrides settings{{"momentum", 0.5}, {"weight_decay", 0.25}};
    const auto inside = make_optimizer("sgd", settings, together), outside = make_optimizer("sgd", settings, apart);
    std::vector<float> velocity{0, 0};
    for (std::uint64_t index = 0; index < 3; ++index) {
      const std::vector<float> gradient{static_cast<float>(index) - 1, 4};
      for (std::size_t i = 0; i < 2; ++i) velocity[i] = 0.5f * velocity[i] + gradient[i];
      step(*inside, together, gradient, 0.5, index);
      step(*outside, apart, velocity, 0.5, index, 1.0f, true);
    }
    CHECK(copy(together.values()) == copy(apart.values()));
  }

  TEST_CASE("a gradient with the learning rate in it is subtracted as it is") {
    const std::vector<float> start{8, 8}, gradient{2, -2};
    ParameterArena arena = arena_of(start);
    const auto sgd = make_optimizer("sgd", {{"momentum", 0.0}, {"weight_decay", 0.25}}, arena);
    sgd->begin_step(0.5, 0);
    sgd->update({0, 2, false, true}, View<const float>(std::span(gradient)), 0.5f);  // x - (1 + 0.5 * 2)
    CHECK(copy(arena.values()) == std::vector<float>{6, 8});

    const auto momentum = make_optimizer("sgd", {{"momentum", 0.5}}, arena);
    CHECK_THROWS_AS(momentum->update({0, 2, false, true}, View<const float>(std::span(gradient)), 1.0f), Error);
  }

  TEST_CASE("raw and folded accumulators differ when the rate changes") {
    // n = 2, k = 1, gradients [1, 2] twice, rates 0.1 then 0.01: the accumulators and selections are written out.
    const std::vector<float> zeros{0, 0};
    ParameterArena raw = arena_of(zeros), folded = arena_of(zeros);
    const auto raw_sgd = make_optimizer("sgd", kPlain, raw), folded_sgd = make_optimizer("sgd", kPlain, folded);
    raw_sgd->begin_step(0.1, 0);
    raw_sgd->update({0, 2, false, false}, sparse_of({{1, 2.0f}}), 1.0f);
    raw_sgd->begin_step(0.01, 1);
    raw_sgd->update({0, 2, false, false}, sparse_of({{0, 2.0f}}), 1.0f);  // acc = [2, 2], the tie goes to index 0
    folded_sgd->begin_step(0.1, 0);
    folded_sgd->update({0, 2, false, true}, sparse_of({{1, 0.2f}}), 1.0f);
    folded_sgd->begin_step(0.01, 1);
    folded_sgd->update({0, 2, false, true}, sparse_of({{0, 0.11f}}), 1.0f);  // acc = [0.11, 0.02]
    CHECK(copy(raw.values()) == std::vector<float>{-0.01f * 2.0f, -0.1f * 2.0f});
    CHECK(copy(folded.values()) == std::vector<float>{-0.11f, -0.2f});
  }

  DRAGONN_DEVICE_TEST("sparse and dense updates give the same bits") {
    constexpr std::size_t kSize = 10'007;  // several blocks and an odd tail
    struct Case {
      Overrides settings;
      bool momentum_applied;
      bool dense;  // the algebra moves every coordinate
    };
    const Case cases[] = {{kPlain, false, false},
                          {{{"momentum", 0.9}, {"weight_decay", 0.0}}, true, false},
                          {{{"momentum", 0.9}, {"weight_decay", 0.0}}, false, true},
                          {{{"momentum", 0.9}, {"weight_decay", 0.0}, {"nesterov", true}}, false, true},
                          {{{"momentum", 0.9}, {"weight_decay", 1e-3}}, true, true},
                          {{{"momentum", 0.9}, {"weight_decay", 1e-3}, {"nesterov", true}}, true, true},
                          {{{"momentum", 0.0}, {"weight_decay", 1e-3}}, false, true}};
    for (const Case& one : cases) {
      ParameterArena sparse_arena = arena_of(normals(kSize, 1), device),
                     dense_arena = arena_of(normals(kSize, 1), device);
      const auto sparse_sgd = make_optimizer("sgd", one.settings, sparse_arena);
      const auto dense_sgd = make_optimizer("sgd", one.settings, dense_arena);
      // Two slices, the second one from an odd offset.
      const Slice slices[] = {{0, 4001, one.momentum_applied, false},
                              {4001, kSize - 4001, one.momentum_applied, false}};
      CHECK(sparse_sgd->needs_dense(slices[0]) == one.dense);
      for (std::uint64_t index = 0; index < 5; ++index) {
        sparse_sgd->begin_step(0.1, index);
        dense_sgd->begin_step(0.1, index);
        for (const Slice& slice : slices) {
          const auto [sparse, dense] = random_sparse(slice.size, 0.05, 10 * index + slice.offset);
          sparse_sgd->update(slice, on_device(sparse, device), 0.25f);
          dense_sgd->update(slice, on_device(dense, device).view(), 0.25f);
        }
      }
      CHECK(copy(sparse_arena.values()) == copy(dense_arena.values()));
    }
  }

  TEST_CASE("an empty sparse gradient still decays and moves what has momentum") {
    const std::vector<float> start{8};
    ParameterArena arena = arena_of(start);
    const auto sgd = make_optimizer("sgd", {{"momentum", 0.5}, {"weight_decay", 0.25}}, arena);
    sgd->begin_step(1.0, 0);
    sgd->update({0, 1, false, false}, SparseVector(), 1.0f);
    CHECK(copy(arena.values()) == std::vector<float>{6});
  }

  TEST_CASE("biases and normalization can be spared from weight decay") {
    for (const bool all : {true, false}) {
      ParameterArena arena;
      const ParameterId weight = arena.declare("weight", {2, 2}, ParameterRole::kWeight);
      const ParameterId scale = arena.declare("scale", {2}, ParameterRole::kNormalization);
      const ParameterId bias = arena.declare("bias", {3}, ParameterRole::kBias);
      arena.allocate();
      std::ranges::fill(arena.values().host(), 4.0f);
      const auto sgd =
          make_optimizer("sgd", {{"momentum", 0.0}, {"weight_decay", 0.25}, {"weight_decay_norm_bias", all}}, arena);
      const Slice vectors{arena.matrix_size(), arena.size() - arena.matrix_size(), false, false};
      CHECK(sgd->needs_dense(vectors) == all);
      const std::vector<float> zeros(arena.size(), 0.0f);
      step(*sgd, arena, zeros, 1.0, 0);
      CHECK(copy(arena.value(weight)) == std::vector<float>(4, 3.0f));
      CHECK(copy(arena.value(scale)) == std::vector<float>(2, all ? 3.0f : 4.0f));
      CHECK(copy(arena.value(bias)) == std::vector<float>(3, all ? 3.0f : 4.0f));
    }
  }

  TEST_CASE("the first rule whose pattern matches a name gives its weight decay, in every optimizer") {
    for (const std::string& name : Registry<OptimizerEntry>::instance().names()) {
      CAPTURE(name);
      ParameterArena arena;
      arena.declare("embedding.weight", {2, 2}, ParameterRole::kWeight);
      arena.declare("block.0.norm.weight", {2}, ParameterRole::kNormalization);
      arena.declare("block.0.weight", {2, 2}, ParameterRole::kHiddenMatrix);
      arena.declare("block.0.bias", {2}, ParameterRole::kBias);
      arena.allocate();
      std::ranges::fill(arena.values().host(), 4.0f);
      const auto optimizer =
          make_optimizer(name,
                         {{"weight_decay", 0.25},
                          {"weight_decay_norm_bias", false},
                          {"weight_decay_rules", std::string("*.norm.*=0.5,embedding.* = 0.125 , *.weight=0")}},
                         arena);
      step(*optimizer, arena, std::vector<float>(arena.size(), 0.0f), 1.0, 0);
      if (name == "adam") continue;  // its normalized step hides the coefficient
      CHECK(copy(arena.value(0)) == std::vector<float>(4, 3.5f));
      CHECK(copy(arena.value(1)) == std::vector<float>(2, 2.0f));
      CHECK(copy(arena.value(2)) == std::vector<float>(4, 4.0f));
      CHECK(copy(arena.value(3)) == std::vector<float>(2, 4.0f));
    }
  }

  TEST_CASE("rules of weight decay that match nothing or cannot be read name what is valid") {
    ParameterArena arena;
    arena.declare("fc.weight", {2, 2}, ParameterRole::kHiddenMatrix);
    arena.declare("fc.bias", {2}, ParameterRole::kBias);
    arena.allocate();
    const auto make = [&](const std::string& rules) {
      return make_optimizer("sgd", {{"weight_decay_rules", rules}}, arena);
    };
    CHECK_THROWS_WITH_AS(make("*.bias=0, norm.*=0"),
                         "optimizer.weight_decay_rules = \"*.bias=0, norm.*=0\": 'norm.*' matches no parameter of the "
                         "model: expected a pattern of names such as fc.weight, fc.bias",
                         ConfigError);
    for (const char* part : {"*.bias", "*.bias=", "=0", "*.bias=-1", "*.bias=0x", "*.bias=nan", "*.bias=inf", ""}) {
      CAPTURE(part);
      CHECK_THROWS_WITH_AS(make(std::string("fc.*=1, ") + part + ", *=0"),
                           doctest::Contains((std::string("'") + part + "' is no rule: expected PATTERN=").c_str()),
                           ConfigError);
    }
  }

  DRAGONN_DEVICE_TEST("50 momentum steps stay close to a float64 run") {
    constexpr std::size_t kSize = 1000, kSteps = 50;
    constexpr double kRate = 0.05, kMomentum = 0.9, kDecay = 1e-2;
    const std::vector<float> start = normals(kSize, 3);
    ParameterArena arena = arena_of(start, device);
    const auto sgd = make_optimizer("sgd", {{"momentum", kMomentum}, {"weight_decay", kDecay}}, arena);
    std::vector<double> x(start.begin(), start.end()), b(kSize, 0.0);
    for (std::size_t index = 0; index < kSteps; ++index) {
      const std::vector<float> gradient = normals(kSize, 100 + index);
      step(*sgd, arena, gradient, kRate, index);
      for (std::size_t i = 0; i < kSize; ++i) {
        b[i] = kMomentum * b[i] + gradient[i] + kDecay * x[i];
        x[i] -= kRate * b[i];
      }
    }
    // At most 8 roundings a step, each of 2^-24 relative, adding up over the steps.
    CHECK(relative_error(copy(arena.values()), x) < kSteps * 8 * 0x1p-24);
  }

  TEST_CASE("wrong sizes and settings are refused") {
    const std::vector<float> start{1, 2};
    ParameterArena arena = arena_of(start);
    const auto sgd = make_optimizer("sgd", kPlain, arena);
    CHECK_THROWS_AS(sgd->update({0, 2, false, false}, View<const float>(std::span(start).first(1)), 1.0f), Error);
    CHECK_THROWS_AS(sgd->update({0, 2, false, false}, sparse_of({{2, 1.0f}}), 1.0f), ShapeError);
    CHECK_THROWS_AS(make_optimizer("sgd", {{"momentum", 0.0}, {"nesterov", true}}, arena), ConfigError);
    CHECK_THROWS_AS(make_optimizer("sgd", {{"momentum", 1.5}}, arena), ConfigError);
    CHECK_THROWS_AS(make_optimizer("sgd", {{"weight_decay", -1.0}}, arena), ConfigError);
  }
}

}  // namespace
}  // namespace dragonn::optim
