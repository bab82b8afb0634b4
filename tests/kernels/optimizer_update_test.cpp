// SPDX-License-Identifier: MIT
#include "kernels/gradient/optimizer_update.h"

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>
#include <hwy/targets.h>

#include "core/error.h"
#include "core/rng.h"
#include "kernels/gradient/select.h"
#include "tests/support/devices.h"

namespace dragonn::kernels {
namespace {

using test::on_device;
using test::to_host;

std::vector<float> normals(std::size_t size, std::uint64_t seed) {
  Rng rng(seed, "test");
  std::vector<float> values(size);
  for (float& value : values) value = rng.normal();
  return values;
}

View<float> view(std::vector<float>& values) {
  return View<float>(std::span(values));
}

SparseVector every_third(const std::vector<float>& dense) {
  SparseVector sparse;
  sparse.resize_discard((dense.size() + 2) / 3);
  for (std::size_t entry = 0; entry < sparse.size(); ++entry) {
    sparse.indices.host()[entry] = static_cast<std::uint32_t>(3 * entry);
    sparse.values.host()[entry] = dense[3 * entry];
  }
  return sparse;
}

/// Values and state after one update of every kind.
std::vector<std::vector<float>> update_all(std::size_t size) {
  const std::vector<float> gradient = normals(size, 1);
  const GradientView dense{View<const float>(std::span(gradient))};
  std::vector<std::vector<float>> results;
  for (const bool nesterov : {false, true}) {
    for (const bool applied : {false, true}) {
      std::vector<float> values = normals(size, 2), momentum = normals(size, 3);
      sgd_update({0.1f, 0.25f, 0.9f, 1e-3f, nesterov, applied, false}, dense, view(momentum), view(values));
      results.push_back(values);
      results.push_back(momentum);
    }
  }
  for (const bool decoupled : {false, true}) {
    std::vector<float> values = normals(size, 2), first = normals(size, 3), second(size, 0.5f);
    AdamRule rule;
    rule.learning_rate = rule.step_size = 0.1f;
    rule.weight_decay = 1e-2f;
    rule.decoupled = decoupled;
    adam_update(rule, dense, view(first), view(second), view(values));
    results.push_back(values);
  }
  return results;
}

TEST_SUITE("kernels") {
  TEST_CASE("optimizer updates give the same bits on every instruction set") {
    const std::size_t size = 4099;
    const auto expected = update_all(size);
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      CHECK_MESSAGE(update_all(size) == expected, hwy::TargetName(target));
    }
    hwy::SetSupportedTargetsForTest(0);
  }

  TEST_CASE("optimizer updates do not depend on where a vector of elements starts") {
    const std::vector<float> gradient = normals(100, 1);
    std::vector<float> whole = normals(100, 2), parts = whole;
    const SgdRule rule{0.1f, 1.0f, 0.0f, 1e-2f, false, false, false};
    const GradientView dense{View<const float>(std::span(gradient))};
    sgd_update(rule, dense, {}, view(whole));
    sgd_update(rule, dense.slice(0, 37), {}, view(parts).subview(0, 37));
    sgd_update(rule, dense.slice(37, 63), {}, view(parts).subview(37, 63));
    CHECK(whole == parts);
  }

  TEST_CASE("parts of a sparse gradient hold the entries of their range") {
    const std::vector<float> dense = normals(100, 1);
    const SparseVector sparse = every_third(dense);
    const GradientView part = GradientView(sparse, 100).slice(10, 50).slice(5, 20);  // [15, 35)
    REQUIRE(part.entries() == 7);                                                    // 15, 18, ..., 33
    CHECK(part.index(0) == 0);
    CHECK(part.index(6) == 18);
    std::vector<float> scratch(20);
    const float* block = part.block(0, 20, scratch.data());
    for (std::size_t i = 0; i < 20; ++i) CHECK(block[i] == (i % 3 == 0 ? dense[15 + i] : 0.0f));
  }

  DRAGONN_DEVICE_TEST("updates are those of plain loops, from a dense gradient and from a sparse one, part by part") {
    constexpr std::size_t kSize = 5003;
    const std::vector<float> all = normals(kSize, 1);
    const SparseVector entries = every_third(all);
    std::vector<float> g(kSize, 0.0f);
    for (std::size_t i = 0; i < kSize; i += 3) g[i] = all[i];
    SparseVector sparse(device);
    copy_entries(entries, sparse);
    const Buffer<float> dense = on_device(g, device);
    const GradientView views[] = {GradientView(dense.view()), GradientView(sparse, kSize)};
    for (const GradientView& gradient : views) {
      for (const bool nesterov : {false, true}) {
        std::vector<float> x = normals(kSize, 2), b = normals(kSize, 3);
        Buffer<float> values = on_device(x, device), momentum = on_device(b, device);
        for (std::size_t i = 0; i < kSize; ++i) {
          const float decay = 1e-3f * x[i], scaled = 0.25f * g[i];
          const float d = scaled + decay, kept = 0.9f * b[i];
          b[i] = kept + d;
          const float ahead = 0.9f * b[i];
          const float change = 0.1f * (nesterov ? d + ahead : b[i]);
          x[i] = x[i] - change;
        }
        const SgdRule rule{0.1f, 0.25f, 0.9f, 1e-3f, nesterov, false, false};
        for (const auto& [offset, count] : {std::pair<std::size_t, std::size_t>{0, 2049}, {2049, kSize - 2049}}) {
          sgd_update(rule, gradient.slice(offset, count), momentum.view().subview(offset, count),
                     values.view().subview(offset, count));
        }
        CHECK(to_host(values.view()) == x);
        CHECK(to_host(momentum.view()) == b);
      }
      AdamRule rule;
      rule.learning_rate = rule.step_size = 0.1f;
      rule.weight_decay = 1e-2f;
      std::vector<float> x = normals(kSize, 2), m = normals(kSize, 3), v(kSize, 0.5f);
      Buffer<float> values = on_device(x, device), first = on_device(m, device), second = on_device(v, device);
      for (std::size_t i = 0; i < kSize; ++i) {
        const float decay = rule.weight_decay * x[i], d = g[i] + decay;
        const float kept = rule.beta1 * m[i], added = rule.one_minus_beta1 * d;
        m[i] = kept + added;
        const float kept_square = rule.beta2 * v[i], square = d * d, added_square = rule.one_minus_beta2 * square;
        v[i] = kept_square + added_square;
        const float root = std::sqrt(v[i]) * rule.root_correction + rule.epsilon;
        const float step = rule.step_size * m[i], change = step / root;
        x[i] = x[i] - change;
      }
      adam_update(rule, gradient, first.view(), second.view(), values.view());
      CHECK(to_host(values.view()) == x);
      CHECK(to_host(first.view()) == m);
      CHECK(to_host(second.view()) == v);
    }
  }

  DRAGONN_DEVICE_TEST("updates take arrays that do not lie alike in memory") {
    constexpr std::size_t kSize = 50;
    const std::vector<float> gradient = normals(kSize + 1, 1), before = normals(kSize + 2, 2);
    const Buffer<float> dense = on_device(gradient, device);
    Buffer<float> place = on_device(before, device);
    sgd_update({0.1f, 0.5f}, GradientView(dense.view()).slice(1, kSize), {}, place.view().subview(2, kSize));
    const std::vector<float> values = to_host(place.view());
    for (std::size_t i = 0; i < kSize; ++i)
      CHECK(values[i + 2] == before[i + 2] - 0.1f * (0.5f * gradient[i + 1] + 0.0f * before[i + 2]));
  }

  DRAGONN_DEVICE_TEST("an entrywise update changes the entries only") {
    const std::vector<float> dense = normals(100, 1);
    const std::vector<float> before = normals(100, 2);
    Buffer<float> place = on_device(before, device);
    SparseVector sparse(device);
    copy_entries(every_third(dense), sparse);
    // The second half alone, then the first: entries of the other part do not count.
    const GradientView gradient(sparse, 100);
    sgd_update_entries({0.1f, 0.5f}, gradient.slice(50, 50), place.view().subview(50, 50));
    sgd_update_entries({0.1f, 0.5f}, gradient.slice(0, 50), place.view().subview(0, 50));
    const std::vector<float> values = to_host(place.view());
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(values[i] == (i % 3 == 0 ? before[i] - 0.1f * (0.5f * dense[i]) : before[i]));
    }
  }

  TEST_CASE("optimizer updates refuse sizes that do not fit") {
    std::vector<float> four(4), five(5);
    const GradientView gradient{View<const float>(std::span<const float>(four))};
    CHECK_THROWS_AS(sgd_update({}, gradient, {}, view(five)), ShapeError);
    CHECK_THROWS_AS(sgd_update({}, gradient, view(five), view(four)), ShapeError);
    CHECK_THROWS_AS(adam_update({}, gradient, view(five), view(four), view(four)), ShapeError);
    CHECK_THROWS_AS(GradientView(every_third(normals(100, 1)), 99), ShapeError);
    CHECK_THROWS_AS(sgd_update_entries({}, gradient, view(four)), Error);
  }
}

}  // namespace
}  // namespace dragonn::kernels
