// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/optim/optimizer_fixture.h"

namespace dragonn::optim {
namespace {

constexpr std::size_t kSize = 5000;

void run_steps(Optimizer& optimizer, std::uint64_t begin, std::uint64_t end, const Device& device) {
  for (std::uint64_t index = begin; index < end; ++index) {
    optimizer.begin_step(0.01, index);
    const Buffer<float> dense = on_device(normals(3000, index), device);
    optimizer.update({0, 3000, false, false}, dense.view(), 0.5f);
    const SparseVector sparse = on_device(random_sparse(kSize - 3000, 0.1, index).first, device);
    optimizer.update({3000, kSize - 3000, false, false}, sparse, 0.5f);
  }
}

TEST_SUITE("optim") {
  DRAGONN_DEVICE_TEST("every optimizer resumes with the bits of the uninterrupted run") {
    for (const std::string& name : Registry<OptimizerEntry>::instance().names()) {
      ParameterArena whole = arena_of(normals(kSize, 1), device);
      const auto uninterrupted = make_optimizer(name, {}, whole);
      run_steps(*uninterrupted, 0, 7, device);

      ParameterArena first = arena_of(normals(kSize, 1), device);
      const auto stopped = make_optimizer(name, {}, first);
      run_steps(*stopped, 0, 4, device);
      Archive archive;
      stopped->save(archive, "optimizer/");
      ParameterArena second = arena_of(copy(first.values()), device);
      const auto resumed = make_optimizer(name, {}, second);
      resumed->load(archive, "optimizer/");
      run_steps(*resumed, 4, 7, device);
      CHECK(copy(whole.values()) == copy(second.values()));
    }
  }

  DRAGONN_DEVICE_TEST("every optimizer does on every device what it does on the CPU") {
    for (const std::string& name : Registry<OptimizerEntry>::instance().names()) {
      CAPTURE(name);
      ParameterArena arena = arena_of(normals(kSize, 1), device), expected = arena_of(normals(kSize, 1));
      run_steps(*make_optimizer(name, {}, arena), 0, 5, device);
      run_steps(*make_optimizer(name, {}, expected), 0, 5, {});
      const std::vector<float> values = copy(expected.values());
      // A root or a quotient may be rounded the other way: 16 roundings a step at most.
      CHECK(relative_error(copy(arena.values()), std::vector<double>(values.begin(), values.end())) < 5 * 16 * 0x1p-24);
    }
  }

  TEST_CASE("no optimizer loads the state of another size") {
    for (const std::string& name : Registry<OptimizerEntry>::instance().names()) {
      if (Registry<OptimizerEntry>::instance().at(name).floats_per_parameter == 0) continue;
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
      CHECK(archive.size_bytes() <=
            Registry<OptimizerEntry>::instance().at(name).floats_per_parameter * sizeof(float) * arena.size());
    }
  }
}

}  // namespace
}  // namespace dragonn::optim
