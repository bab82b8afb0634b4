// SPDX-License-Identifier: MIT
#include <algorithm>

#include <doctest/doctest.h>

#include "core/file.h"
#include "core/log.h"
#include "core/rng.h"
#include "tests/compress/support.h"
#include "tests/core/temporary_folder.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

using Shapes = std::vector<Shape>;

/// Returns the number of entries of each of the first bands of `size` elements.
std::vector<std::size_t> by_band(const Entries& entries, std::size_t size, std::size_t bands) {
  std::vector<std::size_t> counts(bands);
  for (const auto& [index, value] : entries)
    if (index < size * bands) ++counts[index / size];
  return counts;
}

Entries selected_of(const Shapes& tensors, const std::vector<float>& acc, double density,
                    const Overrides& overrides = {}) {
  SelectContext context = context_for(acc.size(), density);
  context.tensors = tensors;
  return select_once("chunktopk", acc, context, overrides);
}

std::size_t target_of(const Shapes& tensors, double density, const Overrides& overrides = {}) {
  std::size_t numel = 0;
  for (const Shape& tensor : tensors) numel += tensor.size();
  return Registry<SparsifierEntry>::instance()
      .at("chunktopk")
      .target(settings_of<SparsifierEntry>("chunktopk", overrides), numel, tensors, density);
}

std::vector<float> normals(std::size_t size) {
  Rng rng(4, "chunktopk test");
  std::vector<float> values(size);
  for (float& value : values) value = rng.normal();
  return values;
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("chunktopk takes the largest of each tile, with ties to the lower index") {
    // Two tiles of 2 x 2 side by side.
    const std::vector<float> acc{1, -2, 5, 5,  //
                                 2, 2,  5, -5};
    CHECK(selected_of({{2, 4}}, acc, 0.5, {{"chunk", std::int64_t{2}}}) ==
          Entries{{1, -2.0f}, {2, 5.0f}, {3, 5.0f}, {4, 2.0f}});
    CHECK(selected_of({{2, 4}}, acc, 0.01, {{"chunk", std::int64_t{2}}}) == Entries{{1, -2.0f}, {2, 5.0f}});
    CHECK(selected_of({{2, 4}}, acc, 0.01, {{"chunk", std::int64_t{2}}, {"count", std::int64_t{3}}}).size() == 6);
  }

  TEST_CASE("tiles have the largest divisors, and keep their share") {
    // The entries of the specification's examples: 64 x 64, its counts, thin tiles, vectors, more axes.
    CHECK(target_of({{128, 64}}, 0.01) == 2 * 40);
    CHECK(target_of({{128, 64}}, 0.01, {{"count", std::int64_t{32}}}) == 2 * 32);
    CHECK(target_of({{58, 64}}, 0.01) == 37);            // 58 x 64
    CHECK(target_of({{50257, 64}}, 0.01) == 1733 * 18);  // 29 x 64
    CHECK(target_of({{130}}, 0.1) == 5 * 2);             // pieces of 26, as 65 is too long
    CHECK(target_of({{64}}, 0.01, {{"count", std::int64_t{100}}}) == 64);
    CHECK(target_of({{6, 2, 5}}, 0.1) == 6);           // 6 x 10
    CHECK(target_of({{67}, {4, 4}}, 0.25) == 67 + 4);  // 67 is prime
    CHECK(target_of({{128, 64}}, 1) == 128 * 64);
  }

  TEST_CASE("what tiles keep is the target, and the same share of every part of a matrix") {
    const Shapes tensors{{256, 192}, {96}, {64, 8, 16}};
    std::vector<float> acc = normals(256 * 192 + 96 + 64 * 128);
    for (std::size_t i = 0; i < acc.size() / 2; ++i) acc[i] *= 100;  // topk would take the first half alone
    for (const double density : {0.001, 0.01, 0.3, 1.0}) {
      CAPTURE(density);
      const Entries entries = selected_of(tensors, acc, density);
      CHECK(entries.size() == target_of(tensors, density));
      const std::vector<std::size_t> bands = by_band(entries, 64 * 192, 4);
      CHECK(bands == std::vector<std::size_t>(4, bands[0]));
    }
  }

  TEST_CASE("chunktopk follows a density that changes") {
    const Shapes tensors{{64, 64}};
    const auto sparsifier = make_sparsifier("chunktopk", 4096);
    const auto memory = make_memory("none", 4096);
    const std::vector<float> acc = normals(4096);
    SparseVector selected;
    for (const double density : {0.1, 0.01, 0.1}) {
      SelectContext context = context_for(acc.size(), density);
      context.tensors = tensors;
      select_step(*sparsifier, *memory, context, acc, selected);
      CHECK(entries(selected) == selected_of(tensors, acc, density));
    }
  }

  TEST_CASE("the log says once that tiles are thin") {
    const dragonn::test::TemporaryFolder folder;
    const std::vector<float> acc = normals(134 * 64);
    log::set_file(folder / "log.txt");
    for (int run = 0; run < 2; ++run) selected_of({{134, 64}}, acc, 0.01);
    log::set_file({});
    const std::string text = read_text_file(folder / "log.txt");
    CHECK(text.find("tensor [134, 64] of bucket 0 is cut into tiles of 2 x 64") != std::string::npos);
    CHECK(std::ranges::count(text, '\n') == 1);
  }
}
