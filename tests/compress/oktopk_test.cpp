// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <doctest/doctest.h>

#include "core/rng.h"
#include "tests/compress/support.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

using Vector = std::vector<float>;
using Kind = kernels::PassRequest::Kind;

/// Step after step of one object, without error feedback.
class Steps {
 public:
  explicit Steps(std::size_t numel, const Overrides& overrides = {}, std::uint64_t first = 0)
      : method_(make_sparsifier("oktopk", numel, overrides)), memory_(make_memory("none", numel)), step_(first) {}

  const SparseVector& operator()(const Vector& acc, std::size_t k, double learning_rate = 1) {
    SelectContext context = context_for(acc.size(), 0.1, step_++);
    context.k = k;
    context.learning_rate = learning_rate;
    select_step(*method_, *memory_, context, acc, selected_);
    return selected_;
  }
  float threshold() const { return method_->threshold(); }

 private:
  std::unique_ptr<Sparsifier> method_;
  std::unique_ptr<Memory> memory_;
  std::uint64_t step_;
  SparseVector selected_;
};

Vector normals(std::size_t size, std::uint64_t seed) {
  Rng rng(seed, "oktopk test");
  Vector acc(size);
  for (float& value : acc) value = rng.normal();
  return acc;
}

/// Returns 1..size.
Vector ramp(std::size_t size) {
  Vector acc(size);
  std::iota(acc.begin(), acc.end(), 1.0f);
  return acc;
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("oktopk reuses the k-th magnitude of the last computation") {
    Steps steps(8);
    CHECK(indices(steps({4, 0, 0, 3, 0, 0, 0, 1}, 2)) == std::vector<std::uint32_t>{0, 3});
    CHECK(steps.threshold() == 3);
    CHECK(indices(steps({5, 2, 0, 3.5, 0, 0, 0, 2.9f}, 2)) == std::vector<std::uint32_t>{0, 3});
    CHECK(steps.threshold() == 3);
  }

  TEST_CASE("oktopk computes the exact threshold every period, and at its first step wherever that falls") {
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{5}}) {
      Steps steps(5000, {{"period", std::int64_t{4}}, {"drift", std::string("off")}}, first);
      float expected = 0;
      for (std::uint64_t step = first; step < first + 10; ++step) {
        Vector acc = normals(5000, step);
        steps(acc, 50);
        if (step == first || step % 4 == 0) {
          std::ranges::transform(acc, acc.begin(), [](float value) { return std::fabs(value); });
          std::ranges::sort(acc, std::greater<>());
          expected = acc[49];
        }
        CHECK(steps.threshold() == expected);
      }
    }
  }

  TEST_CASE("oktopk keeps the ties with the k-th magnitude") {
    Steps steps(6);
    CHECK(steps({1, -3, 3, 0, 3, 5}, 2).size() == 4);
  }

  TEST_CASE("oktopk computes again when k or the folded learning rate changes") {
    Steps steps(100, {{"drift", std::string("off")}});
    steps(ramp(100), 10);
    CHECK(steps.threshold() == 91);
    steps(ramp(100), 20);
    CHECK(steps.threshold() == 81);
    Vector smaller = ramp(100);
    for (float& value : smaller) value /= 2;
    steps(smaller, 20, 0.95);  // a glide
    CHECK(steps.threshold() == 81);
    steps(smaller, 20, 0.1);
    CHECK(steps.threshold() == 40.5f);
  }

  TEST_CASE("oktopk computes again at the step after one with fewer than k entries") {
    Steps steps(100, {{"drift", std::string("off")}});
    CHECK(steps(Vector(100, 0.0f), 10).empty());
    Vector few(100);
    few[7] = 2;
    CHECK(steps(few, 10).size() == 1);
    CHECK(steps.threshold() == 0);
    steps(ramp(100), 10);
    CHECK(steps.threshold() == 91);
    CHECK(steps(Vector(100, 0.0f), 10).empty());
    steps(ramp(100), 10);
    CHECK(steps.threshold() == 91);
  }

  TEST_CASE("oktopk computes again at the step after a period's boundary with nothing but zeros") {
    Steps steps(100, {{"period", std::int64_t{2}}, {"drift", std::string("off")}});
    steps(ramp(100), 10);
    steps(ramp(100), 10);
    CHECK(steps(Vector(100, 0.0f), 10).empty());
    Vector doubled = ramp(100);
    for (float& value : doubled) value *= 2;
    CHECK(steps(doubled, 10).size() == 10);
    CHECK(steps.threshold() == 182);
  }

  TEST_CASE("oktopk raises a reused threshold at once while it selects far too many, five times at most") {
    Steps steps(100);
    steps(ramp(100), 10);  // threshold 91
    Vector doubled = ramp(100);
    for (float& value : doubled) value *= 2;
    // 55 values reach 91; five raises by 3 % give 105.49, which 48 reach.
    CHECK(steps(doubled, 10).size() == 48);
    CHECK(steps.threshold() == static_cast<float>(91 * std::pow(1.03, 5)));
    // More than 5/4 k: 1.2 % more for the next step, which 13 entries then leave as it is.
    Vector thirteen(100);
    std::fill_n(thirteen.begin(), 13, 200.0f);
    CHECK(steps(thirteen, 10).size() == 13);
    CHECK(steps.threshold() == static_cast<float>(91 * std::pow(1.03, 5) * 1.012));
  }

  TEST_CASE("oktopk moves the next threshold by the constants of its experiment") {
    struct Expected {
      const char* rules;
      std::size_t count;  // of 12
      double factor;
    };
    for (const Expected& expected :
         {Expected{"vgg", 7, 1 / 1.012}, Expected{"vgg", 8, 1}, Expected{"vgg", 15, 1}, Expected{"vgg", 16, 1.012},
          Expected{"lstm", 8, 1 / 1.012}, Expected{"lstm", 9, 1}, Expected{"lstm", 18, 1.012},
          Expected{"bert", 9, 1 / 1.025}, Expected{"bert", 10, 1}, Expected{"bert", 60, 1.025}}) {
      CAPTURE(expected.rules);
      CAPTURE(expected.count);
      Steps steps(100, {{"drift_rules", std::string(expected.rules)}});
      Vector acc(100);
      std::fill_n(acc.begin(), 12, 8.0f);
      steps(acc, 12);
      std::ranges::fill(acc, 0.0f);
      std::fill_n(acc.begin(), expected.count, 8.0f);
      CHECK(steps(acc, 12).size() == expected.count);
      std::ranges::fill(acc, 0.0f);
      std::fill_n(acc.begin(), 12, 9.0f);
      steps(acc, 12);
      CHECK(steps.threshold() == static_cast<float>(8 * expected.factor));
    }
  }

  TEST_CASE("oktopk learns nothing from zeros") {
    Steps steps(100);
    steps(ramp(100), 10);
    for (int step = 0; step < 3; ++step) CHECK(steps(Vector(100, 0.0f), 10).empty());
    CHECK(steps(ramp(100), 10).size() == 10);
    CHECK(steps.threshold() == 91);
  }
}
