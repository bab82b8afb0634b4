// SPDX-License-Identifier: MIT
/// Tests of the sparsifiers that docs/extending.md and the README add. Their sources are taken from those pages and
/// compiled here.
#include <algorithm>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "compress/sparsifier.h"

namespace dragonn::test {
namespace {

std::vector<std::uint32_t> selection(compress::Sparsifier& sparsifier, std::span<const float> acc, std::size_t k,
                                     std::uint64_t step) {
  compress::SelectContext context;
  context.k = k;
  context.step = step;
  kernels::PassResult pass;
  pass.request = sparsifier.plan(context);
  SparseVector selected;
  sparsifier.select(context, pass, View<const float>(acc), selected);
  const auto indices = selected.indices.host();
  for (std::size_t i = 0; i < indices.size(); ++i) CHECK(selected.values.host()[i] == acc[indices[i]]);
  return {indices.begin(), indices.end()};
}

TEST_SUITE("house") {
  TEST_CASE("the sparsifier of docs/extending.md compiles, registers itself and selects as the page says") {
    const auto& registry = Registry<compress::SparsifierEntry>::instance();
    REQUIRE(registry.contains("cyclick"));
    const compress::SparsifierEntry& entry = registry.at("cyclick");
    const Settings settings(entry.settings);
    std::vector<float> acc(5);
    std::iota(acc.begin(), acc.end(), 1.0f);
    const auto sparsifier = entry.make(settings, acc.size(), Device{});
    using Indices = std::vector<std::uint32_t>;
    CHECK(selection(*sparsifier, acc, 2, 0) == Indices{0, 1});
    CHECK(selection(*sparsifier, acc, 2, 1) == Indices{2, 3});
    CHECK(selection(*sparsifier, acc, 2, 2) == Indices{0, 4});  // the window wraps; indices ascend all the same
    CHECK(selection(*sparsifier, acc, 9, 3) == Indices{0, 1, 2, 3, 4});
    CHECK(selection(*sparsifier, {}, 1, 0).empty());
  }

  TEST_CASE("the sparsifier of the README does what it says") {
    const std::vector<float> acc{3, 1, 2};
    const auto sparsifier = Registry<compress::SparsifierEntry>::instance().at("firstk").make({}, acc.size(), Device{});
    CHECK(selection(*sparsifier, acc, 2, 5) == std::vector<std::uint32_t>{0, 1});
    CHECK(selection(*sparsifier, acc, 4, 5) == std::vector<std::uint32_t>{0, 1, 2});
  }

  TEST_CASE("the settings that the page declares are checked") {
    const compress::SparsifierEntry& entry = Registry<compress::SparsifierEntry>::instance().at("cyclick");
    Settings settings(entry.settings);
    CHECK_THROWS_WITH_AS(settings.set("windows_per_step", std::int64_t{0}),
                         "windows_per_step = 0: expected integer of at least 1", ConfigError);
    settings.set("windows_per_step", std::int64_t{2});
    const std::vector<float> acc(8, 1.0f);
    const auto sparsifier = entry.make(settings, acc.size(), Device{});
    CHECK(selection(*sparsifier, acc, 2, 1) == std::vector<std::uint32_t>{4, 5});
  }
}

}  // namespace
}  // namespace dragonn::test
