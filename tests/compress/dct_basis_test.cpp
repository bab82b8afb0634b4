// SPDX-License-Identifier: MIT
#include "compress/dct_basis.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/rng.h"
#include "tests/compress/support.h"
#include "tests/support/cosines.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

constexpr std::size_t kRows = 6, kColumns = 8, kVector = 10, kNumel = kRows * kColumns + kVector;

std::unique_ptr<Memory> in_basis(std::size_t chunk, const char* name = "residual", const Device& device = {}) {
  return in_dct_basis(make_memory(name, kNumel, {}, 0.5f, false, device), kNumel,
                      std::vector<Shape>{{kRows, kColumns}, {kVector}}, chunk, device);
}

std::vector<float> normals(std::uint64_t step) {
  Rng rng(4, "DCT basis test", {step});
  std::vector<float> values(kNumel);
  for (float& value : values) value = rng.normal();
  return values;
}

/// Transforms tiles of 3 x 4 and pieces of 2, the largest divisors up to 4.
std::vector<double> reference(const std::vector<float>& values, bool inverse) {
  const auto middle = values.begin() + kRows * kColumns;
  std::vector<double> result =
      dragonn::test::transformed_tiles({values.begin(), middle}, kRows, kColumns, 3, 4, inverse);
  const std::vector<double> vector = dragonn::test::transformed_tiles({middle, values.end()}, 5, 2, 1, 2, inverse);
  result.insert(result.end(), vector.begin(), vector.end());
  return result;
}

void check_close(const std::vector<float>& values, const std::vector<double>& expected) {
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::abs(values[i] - expected[i]) < 2e-6);
}

}  // namespace

TEST_SUITE("compress") {
  DRAGONN_DEVICE_TEST("acc is the transform of what accumulates, and sums come back, dense ones and entries") {
    const auto memory = in_basis(4, "residual", device);
    const std::vector<float> first = normals(1), second = normals(2);
    memory->compensate({}, dragonn::test::on_device(first, device).view(), 1);
    memory->settle({});  // nothing left
    memory->compensate({}, dragonn::test::on_device(second, device).view(), 0.5f);
    std::vector<float> sum(kNumel);
    for (std::size_t i = 0; i < kNumel; ++i) sum[i] = first[i] + 0.5f * second[i];
    const std::vector<float> acc = dragonn::test::to_host(memory->accumulated());
    check_close(acc, reference(sum, false));

    const auto restored = memory->to_gradient(memory->accumulated(), nullptr);
    check_close(dragonn::test::to_host(restored), {sum.begin(), sum.end()});
    SparseVector entries(device);
    entries.resize_discard(3);
    kernels::transfer(View<const std::uint32_t>(std::vector<std::uint32_t>{0, 5, kNumel - 1}), entries.indices.view());
    kernels::transfer(View<const float>(std::vector<float>{2, -1, 3}), entries.values.view());
    std::vector<float> dense(kNumel);
    dense[0] = 2, dense[5] = -1, dense[kNumel - 1] = 3;
    check_close(dragonn::test::to_host(memory->to_gradient({}, &entries)), reference(dense, true));
    CHECK(dragonn::test::to_host(memory->accumulated()) == acc);  // sums leave the residual alone
  }

  TEST_CASE("what leaves a memory in another basis leaves acc there, whatever the memory") {
    for (const std::string& name : Registry<MemoryEntry>::instance().names()) {
      CAPTURE(name);
      const auto memory = in_basis(4, name.c_str());
      memory->compensate({}, view(normals(1)), 1);
      std::vector<float> acc = dragonn::test::to_host(memory->accumulated());
      const std::vector<std::uint32_t> sent{1, 7, 50};
      memory->settle({.contributed = std::span(sent)});
      if (memory->residual().empty()) continue;
      for (const std::uint32_t index : sent) acc[index] = 0;
      CHECK(dragonn::test::to_host(memory->residual()) == acc);
      CHECK(memory->residual_norm() > 0);
    }
  }

  TEST_CASE("a residual is taken over in its own basis only") {
    const auto saved = in_basis(4);
    saved->compensate({}, view(normals(1)), 1);
    saved->settle({});
    Archive archive;
    saved->save(archive, "memory/");
    const auto same = in_basis(4), other = in_basis(8);
    same->load(archive, "memory/");
    CHECK(dragonn::test::to_host(same->residual()) == dragonn::test::to_host(saved->residual()));
    CHECK_THROWS_AS(other->load(archive, "memory/"), DataError);
    CHECK_THROWS_AS(make_memory("residual", kNumel)->load(archive, "memory/"), DataError);
    same->add(archive, "memory/");
    for (std::size_t i = 0; i < kNumel; ++i) CHECK(same->residual().host()[i] == 2 * saved->residual().host()[i]);
  }
}
