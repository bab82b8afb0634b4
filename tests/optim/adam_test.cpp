// SPDX-License-Identifier: MIT
#include <cmath>

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/optim/optimizer_fixture.h"

namespace dragonn::optim {
namespace {

constexpr std::size_t kSize = 1000;
constexpr std::size_t kSteps = 50;
constexpr double kRate = 0.01;
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-6;

/// The textbook's formulas in float64.
struct Reference {
  double decay;
  bool decoupled, corrected;
  std::vector<double> x, m = std::vector<double>(kSize, 0.0), v = std::vector<double>(kSize, 0.0);

  void step(std::span<const float> gradient, double t) {
    for (std::size_t i = 0; i < kSize; ++i) {
      const double g = gradient[i] + (decoupled ? 0.0 : decay * x[i]);
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
      v[i] = kBeta2 * v[i] + (1 - kBeta2) * g * g;
      const double mean = corrected ? m[i] / (1 - std::pow(kBeta1, t)) : m[i];
      const double square = corrected ? v[i] / (1 - std::pow(kBeta2, t)) : v[i];
      x[i] -= kRate * (mean / (std::sqrt(square) + kEpsilon) + (decoupled ? decay * x[i] : 0.0));
    }
  }
};

TEST_SUITE("optim") {
  TEST_CASE("the first Adam step has the size of the learning rate") {
    const std::vector<float> start{1, 1, 1}, gradient{1000, -0.001f, 0};
    ParameterArena arena = arena_of(start);
    const auto adam = make_optimizer("adam", {}, arena);
    adam->begin_step(0.5, 0);
    adam->update({0, 3, false, false}, View<const float>(std::span(gradient)), 1.0f);
    CHECK(arena.values().host()[0] == doctest::Approx(0.5).epsilon(1e-5));  // epsilon is 1e-5 of the small gradient
    CHECK(arena.values().host()[1] == doctest::Approx(1.5).epsilon(1e-4));
    CHECK(arena.values().host()[2] == 1.0f);
  }

  TEST_CASE("without bias correction the first step is m over the root of v") {
    const std::vector<float> start{0}, gradient{2};
    ParameterArena arena = arena_of(start);
    const auto adam = make_optimizer(
        "adamw", {{"beta1", 0.5}, {"beta2", 0.75}, {"bias_correction", false}, {"weight_decay", 0.0}}, arena);
    adam->begin_step(1.0, 0);
    adam->update({0, 1, false, false}, View<const float>(std::span(gradient)), 1.0f);  // m = 1, v = 1
    CHECK(arena.values().host()[0] == doctest::Approx(-1.0).epsilon(1e-6));
  }

  TEST_CASE("decoupled decay shrinks a parameter without gradient, coupled decay normalizes it away") {
    const std::vector<float> start{8}, zero{0};
    ParameterArena decoupled = arena_of(start), coupled = arena_of(start);
    const Overrides settings{{"weight_decay", 0.25}};
    for (auto [name, arena] : {std::pair{"adamw", &decoupled}, std::pair{"adam", &coupled}}) {
      const auto optimizer = make_optimizer(name, settings, *arena);
      optimizer->begin_step(0.5, 0);
      optimizer->update({0, 1, false, false}, View<const float>(std::span(zero)), 1.0f);
    }
    CHECK(decoupled.values().host()[0] == 7.0f);                              // 8 - 0.5 * 0.25 * 8
    CHECK(coupled.values().host()[0] == doctest::Approx(7.5).epsilon(1e-6));  // 8 - 0.5
  }

  DRAGONN_DEVICE_TEST("50 steps stay close to a float64 run") {
    for (const char* name : {"adam", "adamw"}) {
      for (const bool corrected : {true, false}) {
        const std::vector<float> start = normals(kSize, 3);
        ParameterArena arena = arena_of(start, device);
        const auto adam = make_optimizer(name,
                                         {{"beta1", kBeta1},
                                          {"beta2", kBeta2},
                                          {"epsilon", kEpsilon},
                                          {"weight_decay", 0.01},
                                          {"bias_correction", corrected}},
                                         arena);
        Reference reference{0.01, std::string(name) == "adamw", corrected, {start.begin(), start.end()}};
        for (std::size_t index = 0; index < kSteps; ++index) {
          const std::vector<float> gradient = normals(kSize, 100 + index);
          adam->begin_step(kRate, index);
          adam->update({0, kSize, false, false}, on_device(gradient, device).view(), 1.0f);
          reference.step(gradient, static_cast<double>(index + 1));
        }
        // At most 16 roundings a step, each of 2^-24 relative, adding up over the steps.
        CHECK(relative_error(copy(arena.values()), reference.x) < kSteps * 16 * 0x1p-24);
      }
    }
  }

  DRAGONN_DEVICE_TEST("Adam sweeps all coordinates of a sparse gradient, with the bits of the dense update") {
    constexpr std::size_t kElements = 10'007;
    for (const char* name : {"adam", "adamw"}) {
      ParameterArena sparse_arena = arena_of(normals(kElements, 1), device),
                     dense_arena = arena_of(normals(kElements, 1), device);
      const auto sparse_adam = make_optimizer(name, {}, sparse_arena),
                 dense_adam = make_optimizer(name, {}, dense_arena);
      const Slice slice{0, kElements, false, false};
      CHECK(sparse_adam->needs_dense(slice));
      for (std::uint64_t index = 0; index < 5; ++index) {
        const auto [sparse, dense] = random_sparse(kElements, 0.05, index);
        sparse_adam->begin_step(0.1, index);
        sparse_adam->update(slice, on_device(sparse, device), 0.25f);
        dense_adam->begin_step(0.1, index);
        dense_adam->update(slice, on_device(dense, device).view(), 0.25f);
      }
      CHECK(copy(sparse_arena.values()) == copy(dense_arena.values()));
    }
  }

  TEST_CASE("Adam refuses gradients with momentum or learning rate in them") {
    const std::vector<float> start{1};
    ParameterArena arena = arena_of(start);
    const auto adam = make_optimizer("adam", {}, arena);
    CHECK_THROWS_AS(adam->update({0, 1, true, false}, View<const float>(std::span(start)), 1.0f), Error);
    CHECK_THROWS_AS(adam->update({0, 1, false, true}, View<const float>(std::span(start)), 1.0f), Error);
    for (const char* name : {"adam", "adamw"}) {
      const OptimizerEntry& entry = Registry<OptimizerEntry>::instance().at(name);
      CHECK_FALSE(entry.has_momentum);
      CHECK_FALSE(entry.allows_folded);
    }
    CHECK_THROWS_AS(make_optimizer("adam", {{"beta2", 1.0}}, arena), ConfigError);
    CHECK_THROWS_AS(make_optimizer("adam", {{"epsilon", 0.0}}, arena), ConfigError);
  }
}

}  // namespace
}  // namespace dragonn::optim
