// SPDX-License-Identifier: MIT
#include "kernels/gradient/tile_select.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "core/rng.h"
#include "tests/support/devices.h"
#include "tests/support/thread_counts.h"

using namespace dragonn;
using namespace dragonn::kernels;

namespace {

using Entries = std::vector<std::pair<std::uint32_t, float>>;

/// Sorts each tile as a whole.
Entries reference(const std::vector<float>& values, const std::vector<TiledMatrix>& matrices) {
  Entries result;
  std::size_t offset = 0;
  for (const TiledMatrix& matrix : matrices) {
    for (std::size_t row = 0; row < matrix.rows; row += matrix.tile_rows) {
      for (std::size_t column = 0; column < matrix.columns; column += matrix.tile_columns) {
        Entries tile;
        for (std::size_t r = row; r < row + matrix.tile_rows; ++r) {
          for (std::size_t c = column; c < column + matrix.tile_columns; ++c) {
            const std::size_t index = offset + r * matrix.columns + c;
            if (std::abs(values[index]) > 0) tile.emplace_back(static_cast<std::uint32_t>(index), values[index]);
          }
        }
        std::ranges::stable_sort(tile, std::greater(), [](const auto& entry) { return std::abs(entry.second); });
        if (tile.size() > matrix.keep) tile.resize(matrix.keep);
        result.insert(result.end(), tile.begin(), tile.end());
      }
    }
    offset += matrix.size();
  }
  std::ranges::sort(result);
  return result;
}

Entries selected_of(const std::vector<float>& values, const std::vector<TiledMatrix>& matrices,
                    const Device& device = {}) {
  TileScratch scratch(device);
  SparseVector selected(device);
  const Buffer<float> place = dragonn::test::on_device(values, device);
  select_in_tiles(place.view(), matrices, scratch, selected);
  const auto indices = dragonn::test::to_host(selected.indices.view());
  const auto found = dragonn::test::to_host(selected.values.view());
  Entries entries;
  for (std::size_t i = 0; i < indices.size(); ++i) entries.emplace_back(indices[i], found[i]);
  return entries;
}

/// Normal values; small integers, with many ties and zeros; or columns of large values.
enum class Input { kNormal, kTies, kColumns };

std::vector<float> draw(Input input, std::size_t size) {
  Rng rng(3, "tile select test", {size});
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    const float normal = rng.normal();
    values[i] = input == Input::kTies                     ? std::round(normal)
                : input == Input::kColumns && i % 64 == 5 ? 9 + normal
                                                          : normal;
  }
  return values;
}

}  // namespace

TEST_SUITE("kernels") {
  DRAGONN_DEVICE_TEST("each tile keeps its largest, and of ties the first ones") {
    const std::vector<std::vector<TiledMatrix>> layouts{
        {{.rows = 128, .columns = 192, .tile_rows = 64, .tile_columns = 64, .keep = 40}},
        {{.rows = 64, .columns = 64, .tile_rows = 64, .tile_columns = 64, .keep = 1}},
        {{.rows = 128, .columns = 128, .tile_rows = 128, .tile_columns = 128, .keep = 5000}},
        {{.rows = 6, .columns = 5, .tile_rows = 3, .tile_columns = 5, .keep = 15}},
        {{.rows = 29, .columns = 128, .tile_rows = 29, .tile_columns = 64, .keep = 18},
         {.rows = 7, .columns = 1, .tile_rows = 1, .tile_columns = 1, .keep = 1},
         {.rows = 0, .columns = 1},
         {.rows = 3, .columns = 53, .tile_rows = 1, .tile_columns = 53, .keep = 2},
         {.rows = 512, .columns = 64, .tile_rows = 1, .tile_columns = 64, .keep = 1}}};
    for (const auto& matrices : layouts) {
      std::size_t size = 0;
      for (const TiledMatrix& matrix : matrices) size += matrix.size();
      for (const Input input : {Input::kNormal, Input::kTies, Input::kColumns}) {
        CAPTURE(size);
        CAPTURE(static_cast<int>(input));
        const std::vector<float> values = draw(input, size);
        CHECK(selected_of(values, matrices, device) == reference(values, matrices));
      }
    }
  }

  DRAGONN_DEVICE_TEST("tiles select neither zeros nor NaN, and infinities first") {
    constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<TiledMatrix> rows{{.rows = 3, .columns = 4, .tile_columns = 4, .keep = 2}};
    const std::vector<float> values{0, -0.0f, 0, 0, kNan, 1, -kNan, 0, 1, -kInfinity, kNan, -2};
    CHECK(selected_of(values, rows, device) == Entries{{5, 1.0f}, {9, -kInfinity}, {11, -2.0f}});
  }

  TEST_CASE("any number of threads selects the same in tiles") {
    const std::vector<TiledMatrix> matrices{
        {.rows = 960, .columns = 320, .tile_rows = 64, .tile_columns = 64, .keep = 40},
        {.rows = 1000, .columns = 10, .tile_columns = 10, .keep = 1}};
    const std::vector<float> values = draw(Input::kTies, matrices[0].size() + matrices[1].size());
    const int threads = omp_get_max_threads();
    const Entries expected = reference(values, matrices);
    for (const int other : dragonn::test::kThreadCounts) {
      omp_set_num_threads(other);
      CHECK(selected_of(values, matrices) == expected);
    }
    omp_set_num_threads(threads);
  }

  TEST_CASE("tiles that do not fill their matrix, or matrices that do not fill the vector, are refused") {
    const std::vector<float> values(12, 1.0f);
    CHECK_THROWS(selected_of(values, {{.rows = 3, .columns = 4, .tile_columns = 3}}));
    CHECK_THROWS(selected_of(values, {{.rows = 3, .columns = 4, .tile_columns = 4, .keep = 5}}));
    CHECK_THROWS(selected_of(values, {{.rows = 2, .columns = 4, .tile_columns = 4}}));
  }
}
