// SPDX-License-Identifier: MIT
#include "kernels/gradient/gradient_pass.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <hwy/targets.h>
#include <omp.h>

#include "core/rng.h"
#include "kernels/gradient/select.h"
#include "tests/support/thread_counts.h"

using namespace dragonn;
using namespace dragonn::kernels;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// Sizes around the widths of vectors, of four of them, of cache lines and of the pieces given to threads.
constexpr std::size_t kSizes[] = {0, 1, 3, 15, 16, 17, 63, 64, 65, 200, 1000, 32767, 32768, 32769, 100003};

/// Small integers, so that sums are exact.
std::vector<float> integers(std::size_t size, std::uint64_t seed) {
  Rng rng(seed, "gradient pass test");
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(rng.below(41)) - 20.0f;
  return values;
}

View<const float> view(const std::vector<float>& values) {
  return std::span<const float>(values);
}
View<float> view(std::vector<float>& values) {
  return std::span<float>(values);
}

PassRequest threshold_request(float threshold, std::size_t begin, std::size_t end) {
  return {.kind = PassRequest::Kind::kThreshold, .threshold = threshold, .begin = begin, .end = end};
}

/// The selection by its definition.
void check_selection(const SparseVector& selected, const std::vector<float>& acc, float threshold, std::size_t begin,
                     std::size_t end) {
  std::size_t entry = 0;
  for (std::size_t i = begin; i < end; ++i) {
    if (!(std::fabs(acc[i]) >= threshold) || acc[i] == 0) continue;
    REQUIRE(entry < selected.size());
    REQUIRE(selected.indices.data()[entry] == i);
    REQUIRE(selected.values.data()[entry] == acc[i]);
    ++entry;
  }
  CHECK(entry == selected.size());
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("accumulate_residual adds scaled gradients to the decayed residual, at every length and alignment") {
    for (const std::size_t size : kSizes) {
      const std::vector<float> gradient = integers(size + 1, 1);
      std::vector<float> residual = integers(size, 2);
      std::vector<float> expected(size);
      for (std::size_t i = 0; i < size; ++i) expected[i] = 0.5f * residual[i] + 2.0f * gradient[i + 1];
      PassResult result;
      const View<const float> odd = view(gradient).subview(1, size);
      accumulate_residual({}, odd, {.scale = 2.0f, .decay = 0.5f}, view(residual), result);
      CHECK(residual == expected);
      CHECK_FALSE(result.non_finite);
      CHECK(result.selected.empty());
    }
  }

  TEST_CASE("a threshold selection in the pass takes what a scan of the result takes, in any range") {
    for (const std::size_t size : kSizes) {
      const std::vector<float> gradient = integers(size, 3);
      PassResult result;
      for (const float threshold : {0.0f, 1.0f, 15.0f, 100.0f}) {
        for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, size}, {size / 3, size - size / 4}}) {
          std::vector<float> residual = integers(size, 4);
          accumulate_residual(threshold_request(threshold, begin, end), view(gradient), {}, view(residual), result);
          check_selection(result.selected, residual, threshold, begin, end);
          std::vector<float> scaled(size);
          accumulate_scaled(threshold_request(threshold, begin, end), view(gradient), -3.0f, view(scaled), result);
          check_selection(result.selected, scaled, threshold, begin, end);
          examine(threshold_request(threshold, begin, end), view(gradient), result);
          check_selection(result.selected, gradient, threshold, begin, end);
        }
      }
    }
  }

  TEST_CASE("accumulate_momentum follows the heavy-ball and the Nesterov rule") {
    for (const std::size_t size : kSizes) {
      for (const bool nesterov : {false, true}) {
        const std::vector<float> gradient = integers(size, 5);
        std::vector<float> u = integers(size, 6), v = integers(size, 7);
        std::vector<float> expected_u(size), expected_v(size);
        for (std::size_t i = 0; i < size; ++i) {
          const float g = 4.0f * gradient[i];
          expected_u[i] = nesterov ? 0.5f * (u[i] + g) : 0.5f * u[i] + g;
          expected_v[i] = v[i] + expected_u[i] + (nesterov ? g : 0.0f);
        }
        PassResult result;
        accumulate_momentum(threshold_request(10, 0, size), view(gradient),
                            {.scale = 4.0f, .momentum = 0.5f, .nesterov = nesterov}, view(u), view(v), result);
        CHECK(u == expected_u);
        CHECK(v == expected_v);
        check_selection(result.selected, v, 10, 0, size);
      }
    }
  }

  TEST_CASE("filtered accumulation and differences from an estimate follow their rules") {
    for (const std::size_t size : kSizes) {
      const std::vector<float> gradient = integers(size, 5), estimate = integers(size, 8);
      const std::vector<float> state = integers(size, 6), acc = integers(size, 7);
      PassResult result;
      for (const bool has_estimate : {false, true}) {
        std::vector<float> s = state, a = acc, expected_s(size), expected_a(size);
        for (std::size_t i = 0; i < size; ++i) {
          expected_s[i] = 0.75f * state[i] + 0.25f * acc[i];
          expected_a[i] = 0.5f * expected_s[i] + 2.0f * gradient[i] - (has_estimate ? estimate[i] : 0.0f);
        }
        accumulate_filtered(threshold_request(10, 0, size), view(gradient),
                            {.scale = 2.0f, .keep = 0.75f, .take = 0.25f, .out = 0.5f},
                            has_estimate ? view(estimate) : View<const float>(), view(s), view(a), result);
        CHECK(s == expected_s);
        CHECK(a == expected_a);
        check_selection(result.selected, a, 10, 0, size);
      }
      std::vector<float> difference(size), expected(size);
      for (std::size_t i = 0; i < size; ++i) expected[i] = 3.0f * gradient[i] - estimate[i];
      accumulate_difference(threshold_request(10, 0, size), view(gradient), 3.0f, view(estimate), view(difference),
                            result);
      CHECK(difference == expected);
      check_selection(result.selected, difference, 10, 0, size);
      for (const bool nesterov : {false, true}) {
        std::vector<float> u = state, expected_u(size);
        for (std::size_t i = 0; i < size; ++i) {
          const float g = 4.0f * gradient[i];
          expected_u[i] = 0.5f * state[i] + g;
          expected[i] = (nesterov ? g + 0.5f * expected_u[i] : expected_u[i]) - estimate[i];
        }
        accumulate_momentum_difference(threshold_request(10, 0, size), view(gradient),
                                       {.scale = 4.0f, .momentum = 0.5f, .nesterov = nesterov}, view(estimate), view(u),
                                       view(difference), result);
        CHECK(u == expected_u);
        CHECK(difference == expected);
        check_selection(result.selected, difference, 10, 0, size);
      }
    }
  }

  TEST_CASE("a revertible pass computes the same, and is taken back to the bit, by every rule and request") {
    for (const std::size_t size : kSizes) {
      const std::vector<float> gradient = integers(size, 5), estimate = integers(size, 8);
      const std::vector<float> state = integers(size, 6), acc = integers(size, 7);
      const auto check = [&](PassRequest request, const auto& pass) {
        PassResult plain, revertible;
        std::vector<float> expected_state = state, expected_acc = acc, s = state, a = acc;
        pass(request, view(expected_state), view(expected_acc), plain);
        request.revertible = true;
        pass(request, view(s), view(a), revertible);
        CHECK(s == expected_state);
        CHECK(a == expected_acc);
        CHECK(revertible.selected.size() == plain.selected.size());
        CHECK(revertible.moments.sum == plain.moments.sum);
        revert_pass(revertible);
        CHECK(s == state);
        CHECK(a == acc);
        // A plain pass with the same result cannot be taken back, and nothing is.
        request.revertible = false;
        pass(request, view(s), view(a), revertible);
        revert_pass(revertible);
        CHECK(a == expected_acc);
      };
      for (const PassRequest& request :
           {PassRequest{}, PassRequest{.kind = PassRequest::Kind::kMoments}, threshold_request(10, size / 3, size)}) {
        check(request, [&](const PassRequest& asked, View<float>, View<float> a, PassResult& result) {
          accumulate_residual(asked, view(gradient), {.scale = 0.3f, .decay = 0.9f}, a, result);
        });
        check(request, [&](const PassRequest& asked, View<float> s, View<float> a, PassResult& result) {
          accumulate_momentum(asked, view(gradient), {.scale = 0.7f, .momentum = 0.9f}, s, a, result);
        });
        check(request, [&](const PassRequest& asked, View<float> s, View<float> a, PassResult& result) {
          accumulate_filtered(asked, view(gradient), {.keep = 0.9f, .take = 0.1f}, view(estimate), s, a, result);
        });
        check(request, [&](const PassRequest& asked, View<float>, View<float> a, PassResult& result) {
          accumulate_difference(asked, view(gradient), 2.0f, view(estimate), a, result);
        });
      }
    }
  }

  TEST_CASE("a NaN or an infinity anywhere in the gradient is reported, and a NaN is never selected") {
    const std::size_t size = 150;
    for (const float bad : {kNan, -kNan, kInf, -kInf}) {
      for (std::size_t place = 0; place < size; ++place) {
        std::vector<float> gradient(size, 1.0f);
        gradient[place] = bad;
        std::vector<float> residual(size, 0.0f);
        PassResult result;
        accumulate_residual({}, view(gradient), {}, view(residual), result);
        REQUIRE(result.non_finite);
        examine({.kind = PassRequest::Kind::kMoments}, view(gradient), result);
        REQUIRE(result.non_finite);
        examine(threshold_request(0.0f, 0, size), view(gradient), result);
        REQUIRE(result.non_finite);
        REQUIRE(result.selected.size() == (std::isnan(bad) ? size - 1 : size));
      }
    }
  }

  TEST_CASE("a sum that overflows is reported too") {
    std::vector<float> residual(40, 3e38f);
    const std::vector<float> gradient(40, 3e38f);
    PassResult result;
    accumulate_residual({}, view(gradient), {}, view(residual), result);
    CHECK(result.non_finite);
  }

  TEST_CASE("a NaN as the threshold selects nothing, a negative one every non-zero") {
    const std::vector<float> values{1, -2, 0, 3, std::numeric_limits<float>::denorm_min()};
    SparseVector selected;
    select_threshold(view(values), kNan, selected);
    CHECK(selected.empty());
    select_threshold(view(values), -1.0f, selected);
    CHECK(selected.size() == 4);
  }

  TEST_CASE("the moments pass accumulates as every rule says and finds the moments of acc, bit for bit") {
    for (const std::size_t size : kSizes) {
      const std::vector<float> gradient = integers(size, 13);
      const std::vector<float> before = integers(size, 14);
      const PassRequest request{.kind = PassRequest::Kind::kMoments};
      const auto check = [&](const std::vector<float>& acc, const std::vector<float>& expected, PassResult& result) {
        CHECK(acc == expected);
        CHECK(result.selected.empty());
        CHECK_FALSE(result.non_finite);
        const Moments moments = magnitude_moments(view(expected));
        CHECK(result.moments.sum == moments.sum);
        CHECK(result.moments.sum_squares == moments.sum_squares);
        CHECK(result.moments.signed_sum == moments.signed_sum);
        CHECK(result.moments.largest == moments.largest);
      };
      PassResult result, plain;
      std::vector<float> acc = before, expected = before;
      accumulate_residual(request, view(gradient), {.scale = 0.3f, .decay = 0.9f}, view(acc), result);
      accumulate_residual({}, view(gradient), {.scale = 0.3f, .decay = 0.9f}, view(expected), plain);
      check(acc, expected, result);
      accumulate_scaled(request, view(gradient), 0.7f, view(acc), result);
      accumulate_scaled({}, view(gradient), 0.7f, view(expected), plain);
      check(acc, expected, result);
      for (const bool nesterov : {false, true}) {
        std::vector<float> u = before, expected_u = before;
        const MomentumRule rule{.scale = 0.7f, .momentum = 0.9f, .nesterov = nesterov};
        accumulate_momentum(request, view(gradient), rule, view(u), view(acc), result);
        accumulate_momentum({}, view(gradient), rule, view(expected_u), view(expected), plain);
        CHECK(u == expected_u);
        check(acc, expected, result);
      }
      examine(request, view(gradient), result);
      check(gradient, gradient, result);
    }
  }

  TEST_CASE("the sampled threshold is the ranked magnitude of acc on the sampled lines, before the pass stores it") {
    for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{1000}, std::size_t{70001}}) {
      for (const std::size_t stride : {1, 3, 50}) {
        const SamplePlan plan{.stride = stride, .key = 77, .rank = 5};
        const std::vector<float> gradient = integers(size, 8);
        std::vector<float> residual = integers(size, 9);
        PassRequest request = threshold_request(0, 0, size);
        request.kind = PassRequest::Kind::kSampledThreshold;
        request.sample = plan;
        PassResult result;
        accumulate_residual(request, view(gradient), {.scale = 3.0f}, view(residual), result);

        std::vector<float> sample;
        for (std::size_t stratum = 0; stratum < sample_strata(size, stride); ++stratum) {
          const std::size_t line = sampled_line(size, plan, stratum);
          CHECK(line / kLineElements / stride == stratum);
          for (std::size_t i = line; i < std::min(size, line + kLineElements); ++i) {
            sample.push_back(std::fabs(residual[i]));
          }
        }
        CHECK(sample.size() == sample_size(size, plan));
        std::ranges::sort(sample, std::greater<>());
        CHECK(result.threshold == (sample.size() >= plan.rank ? sample[plan.rank - 1] : 0.0f));
        check_selection(result.selected, residual, result.threshold, 0, size);
        PassResult again;
        examine({.kind = PassRequest::Kind::kSampledThreshold, .end = size, .sample = plan}, view(residual), again);
        CHECK(again.threshold == result.threshold);
      }
    }
  }

  TEST_CASE("the number of threads does not show in the results") {
    const std::size_t size = 1 << 20;
    const std::vector<float> gradient = integers(size, 10);
    PassRequest request = threshold_request(0, 1000, size - 77);
    request.kind = PassRequest::Kind::kSampledThreshold;
    request.sample = {.stride = 20, .key = 3, .rank = 500};
    const int threads_before = omp_get_max_threads();
    Moments first;
    for (const int threads : dragonn::test::kThreadCounts) {
      omp_set_num_threads(threads);
      std::vector<float> residual = integers(size, 11);
      PassResult result;
      accumulate_residual(request, view(gradient), {}, view(residual), result);
      check_selection(result.selected, residual, result.threshold, request.begin, request.end);
      std::vector<float> rounded = residual;
      for (float& value : rounded) value /= 3;
      const Moments moments = magnitude_moments(view(rounded));
      if (threads == dragonn::test::kThreadCounts[0]) first = moments;
      CHECK(moments.sum == first.sum);
      CHECK(moments.sum_squares == first.sum_squares);
      CHECK(moments.signed_sum == first.signed_sum);
      omp_set_num_threads(threads_before);
    }
  }

  TEST_CASE("every instruction set gives the same bits") {
    const std::size_t size = 5003;
    std::vector<float> gradient(size);
    Rng rng(12, "gradient pass test");
    for (float& value : gradient) value = rng.normal();
    PassRequest request = threshold_request(0, 10, size - 3);
    request.kind = PassRequest::Kind::kSampledThreshold;
    request.sample = {.stride = 3, .key = 5, .rank = 300};
    std::vector<float> first_u, first_v;
    Moments first_moments;
    const std::int64_t supported = hwy::SupportedTargets();
    for (std::int64_t rest = supported; rest != 0; rest &= rest - 1) {
      hwy::SetSupportedTargetsForTest(rest & -rest);
      hwy::GetChosenTarget().DeInit();
      std::vector<float> u = gradient, v(size, 0.3f);
      PassResult result;
      accumulate_momentum(request, view(gradient), {.scale = 0.7f, .momentum = 0.9f, .nesterov = true}, view(u),
                          view(v), result);
      check_selection(result.selected, v, result.threshold, request.begin, request.end);
      const Moments moments = magnitude_moments(view(v));
      if (rest == supported) {
        first_u = u;
        first_v = v;
        first_moments = moments;
      }
      CHECK(u == first_u);
      CHECK(v == first_v);
      CHECK(moments.sum == first_moments.sum);
      CHECK(moments.sum_squares == first_moments.sum_squares);
      CHECK(moments.signed_sum == first_moments.signed_sum);
      CHECK(moments.largest == first_moments.largest);
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }

  TEST_CASE("swept_elements counts what the passes of a thread read") {
    const std::vector<float> gradient = integers(1000, 15);
    std::vector<float> residual(1000);
    PassResult result;
    const std::uint64_t begin = swept_elements();
    accumulate_residual(threshold_request(0, 10, 20), view(gradient), {}, view(residual), result);
    CHECK(swept_elements() == begin + 1000);
    SparseVector selected;
    select_threshold_in(view(gradient), 1, 100, 300, selected);
    magnitude_moments(view(gradient));
    CHECK(swept_elements() == begin + 1000 + 200 + 1000);
    const std::uint64_t before = swept_elements();
    examine({.kind = PassRequest::Kind::kSampledThreshold, .end = 1000, .sample = {.stride = 5}}, view(gradient),
            result);
    CHECK(swept_elements() == before + 13 * kLineElements + 1000);
    std::thread([] { CHECK(swept_elements() == 0); }).join();
  }

  TEST_CASE("lengths that differ, ranges outside the vector and device memory are refused") {
    const std::vector<float> gradient(8, 1.0f);
    std::vector<float> residual(7);
    PassResult result;
    CHECK_THROWS_AS(accumulate_residual({}, view(gradient), {}, view(residual), result), ShapeError);
    CHECK_THROWS_AS(examine(threshold_request(0, 0, 9), view(gradient), result), Error);
    const View<const float> on_device(gradient.data(), gradient.size(), Device{DeviceType::kCuda, 0});
    CHECK_THROWS_AS(examine({}, on_device, result), DeviceError);
  }
}
