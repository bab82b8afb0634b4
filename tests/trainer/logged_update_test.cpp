// SPDX-License-Identifier: MIT
/// Tests of updates that a rank of an elastic run logs and one that joins makes again.
#include "trainer/update/logged_update.h"

#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/optim/optimizer_fixture.h"
#include "trainer/update/sums.h"

namespace dragonn::trainer::testing {
namespace {

using namespace dragonn::optim;

constexpr std::size_t kSize = 5000, kDense = 3000;

/// The sums of a step: a dense bucket and a sparse one.
struct Sums {
  explicit Sums(std::uint64_t seed, bool momentum_applied = false)
      : dense(kDense), entries(random_sparse(kSize - kDense, 0.1, seed).first) {
    std::ranges::copy(normals(kDense, seed), dense.host().begin());
    sums = {{.offset = 0, .size = kDense, .divisor = 3, .dense = dense.view()},
            {.offset = kDense, .size = kSize - kDense, .momentum_applied = momentum_applied, .entries = &entries}};
  }
  Buffer<float> dense;
  SparseVector entries;
  std::vector<exchange::BucketSum> sums;
};

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("logged updates: every optimizer makes them to the same bits") {
  for (const std::string& name : Registry<OptimizerEntry>::instance().names()) {
    CAPTURE(name);
    ParameterArena trained = arena_of(normals(kSize, 1)), followed = arena_of(normals(kSize, 1));
    const auto optimizer = make_optimizer(name, {}, trained), follower = make_optimizer(name, {}, followed);
    // Sums have momentum in them only where the optimizer has a momentum of its own.
    const bool corrects_momentum = Registry<OptimizerEntry>::instance().at(name).has_momentum;
    for (std::uint64_t step = 0; step < 5; ++step) {
      const Sums made(step, corrects_momentum);
      const LoggedUpdate update{0.01 / static_cast<double>(step + 1), step, step % 2 == 0 ? 1.0f : 0.3f, made.sums};
      optimizer->begin_step(update.learning_rate, update.step);
      apply_sums(update.sums, update.scale, *optimizer);
      apply_logged(to_bytes(update), kSize, *follower);
    }
    CHECK(copy(trained.values()) == copy(followed.values()));
    Archive state, of_follower;
    optimizer->save(state, "");
    follower->save(of_follower, "");
    CHECK(state.fields() == of_follower.fields());
  }
}

TEST_CASE("logged updates: bytes that are cut off, or of another model, are refused") {
  ParameterArena arena = arena_of(normals(kSize, 1));
  const auto optimizer = make_optimizer("sgd", {}, arena);
  const Sums made(1);
  const std::vector<std::byte> bytes = to_bytes({.learning_rate = 0.1, .sums = made.sums});
  for (const std::size_t size : {std::size_t{0}, std::size_t{39}, std::size_t{60}, bytes.size() / 2, bytes.size() - 1})
    CHECK_THROWS_AS(apply_logged(std::span(bytes).first(size), kSize, *optimizer), DataError);
  std::vector<std::byte> longer = bytes;
  longer.push_back({});
  CHECK_THROWS_AS(apply_logged(longer, kSize, *optimizer), DataError);
  CHECK_THROWS_AS(apply_logged(bytes, kSize - 1, *optimizer), DataError);
  Sums outside(1);
  outside.entries.indices.host().back() = kSize - kDense;
  CHECK_THROWS_AS(apply_logged(to_bytes({.learning_rate = 0.1, .sums = outside.sums}), kSize, *optimizer), DataError);
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
