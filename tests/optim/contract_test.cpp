// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/optim/optimizer_fixture.h"

namespace dragonn::optim {
namespace {

constexpr std::size_t kSize = 5000;

void run_steps(Optimizer& optimizer, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t index = begin; index < end; ++index) {
    optimizer.begin_step(0.01, index);
    const std::vector<float> gradient = normals(3000, index);
    optimizer.update({0, 3000, false, false}, View<const float>(std::span(gradient)), 0.5f);
    optimizer.update({3000, kSize - 3000, false, false}, random_sparse(kSize - 3000, 0.1, index).first, 0.5f);
  }
}

TEST_SUITE("optim") {
  TEST_CASE("every optimizer resumes with the bits of the uninterrupted run") {
    for (const std::string& name : Registry<OptimizerEntry>::instance().names()) {
      ParameterArena whole = arena_of(normals(kSize, 1));
      const auto uninterrupted = make_optimizer(name, {}, whole);
      run_steps(*uninterrupted, 0, 7);

      ParameterArena first = arena_of(normals(kSize, 1));
      const auto stopped = make_optimizer(name, {}, first);
      run_steps(*stopped, 0, 4);
      Archive archive;
      stopped->save(archive, "optimizer/");
      ParameterArena second = arena_of(copy(first.values()));
      const auto resumed = make_optimizer(name, {}, second);
      resumed->load(archive, "optimizer/");
      run_steps(*resumed, 4, 7);
      CHECK(copy(whole.values()) == copy(second.values()));
    }
  }

  TEST_CASE("no optimizer loads the state of another size") {
    for (const std::string& name : Registry<OptimizerEntry>::instance().names()) {
      ParameterArena small = arena_of(normals(10, 1)), large = arena_of(normals(11, 1));
      Archive archive;
      make_optimizer(name, {}, small)->save(archive, "optimizer/");
      CHECK_THROWS_AS(make_optimizer(name, {}, large)->load(archive, "optimizer/"), DataError);
    }
  }

  TEST_CASE("every optimizer saves at most the state that it declares") {
    for (const std::string& name : Registry<OptimizerEntry>::instance().names()) {
      ParameterArena arena = arena_of(normals(10, 1));
      Archive archive;
      make_optimizer(name, {}, arena)->save(archive, "optimizer/");
      CHECK(archive.size_bytes() ==
            Registry<OptimizerEntry>::instance().at(name).floats_per_parameter * sizeof(float) * arena.size());
    }
  }
}

}  // namespace
}  // namespace dragonn::optim
