// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "tests/optim/optimizer_fixture.h"

namespace dragonn::optim {
namespace {

TEST_SUITE("optim") {
  DRAGONN_DEVICE_TEST("signsgd moves by the rate against the sign, and not where there is no gradient") {
    const std::vector<float> gradient{1e-30f, -5, 0, -0.0f, 300, -1e-3f};
    const std::vector<float> start{1, 2, 3, 4, 5, 6};
    ParameterArena arena = arena_of(start, device);
    const auto optimizer = make_optimizer("signsgd", {{"weight_decay", 0.0}}, arena);
    CHECK_FALSE(optimizer->needs_dense({0, 6}));
    optimizer->begin_step(0.5, 0);
    optimizer->update({0, 6}, on_device(gradient, device).view(), 0.25f);
    CHECK(copy(arena.values()) == std::vector<float>{0.5f, 2.5f, 3, 4, 4.5f, 6.5f});
  }

  DRAGONN_DEVICE_TEST("signsgd decays before it moves, and takes gradients with the learning rate in them") {
    const std::vector<float> start{8, -8, 8}, gradient{3, 4, 0};
    ParameterArena arena = arena_of(start, device);
    const auto optimizer = make_optimizer("signsgd", {{"weight_decay", 0.5}}, arena);
    CHECK(optimizer->needs_dense({0, 3}));
    optimizer->begin_step(0.5, 0);
    optimizer->update({.size = 3, .learning_rate_applied = true}, on_device(gradient, device).view(), 1);
    CHECK(copy(arena.values()) == std::vector<float>{5.5f, -6.5f, 6});
  }

  DRAGONN_DEVICE_TEST("signsgd gives the same bits for sparse and dense gradients") {
    constexpr std::size_t kSize = 10'007;
    for (const double decay : {0.0, 0.1}) {
      ParameterArena sparse_arena = arena_of(normals(kSize, 1), device),
                     dense_arena = arena_of(normals(kSize, 1), device);
      const auto of_sparse = make_optimizer("signsgd", {{"weight_decay", decay}}, sparse_arena);
      const auto of_dense = make_optimizer("signsgd", {{"weight_decay", decay}}, dense_arena);
      for (std::uint64_t index = 0; index < 3; ++index) {
        of_sparse->begin_step(0.1, index);
        of_dense->begin_step(0.1, index);
        const auto [sparse, dense] = random_sparse(kSize, 0.05, index);
        of_sparse->update({.size = kSize}, on_device(sparse, device), 0.25f);
        of_dense->update({.size = kSize}, on_device(dense, device).view(), 0.25f);
      }
      CHECK(copy(sparse_arena.values()) == copy(dense_arena.values()));
    }
  }
}

}  // namespace
}  // namespace dragonn::optim
