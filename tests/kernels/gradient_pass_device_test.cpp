// SPDX-License-Identifier: MIT
// The passes over gradients on every device, against plain loops.
#include <limits>
#include <tuple>
#include <utility>

#include <doctest/doctest.h>

#include "kernels/devices.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/select.h"
#include "tests/kernels/gradient_reference.h"

using namespace dragonn;
using namespace dragonn::kernels;
using namespace dragonn::test;

namespace {

using Kind = PassRequest::Kind;
using Vector = std::vector<float>;

/// Rounds once per operation, as the passes do.
Vector accumulated(const Vector& gradient, const Vector& residual, const ResidualRule& rule) {
  Vector acc(gradient.size());
  for (std::size_t i = 0; i < acc.size(); ++i) {
    const float kept = rule.decay * residual[i], added = rule.scale * gradient[i];
    acc[i] = kept + added;
  }
  return acc;
}

/// Tiles end at multiples of 4096 or 8192 on a GPU, vectors at multiples of 4.
constexpr std::size_t kSizes[] = {0, 1, 3, 4, 4095, 4096, 4097, 8191, 8192, 8193, 100003};

/// A gradient that begins `offset` elements behind an aligned address.
struct ShiftedGradient {
  ShiftedGradient(const Vector& values, std::size_t offset, const Device& device) : offset_(offset) {
    Vector padded(offset, 1e30f);
    padded.insert(padded.end(), values.begin(), values.end());
    buffer_ = on_device(padded, device);
  }
  View<const float> view() const { return buffer_.view().subview(offset_, buffer_.size() - offset_); }

 private:
  std::size_t offset_;
  Buffer<float> buffer_;
};

}  // namespace

TEST_SUITE("kernels") {
  DRAGONN_DEVICE_TEST("accumulating into a residual selects what reaches the threshold, wherever the gradient begins") {
    const ResidualRule rule{.scale = 0.5f, .decay = 0.75f};
    for (const std::size_t size : kSizes) {
      for (const std::size_t offset : {0, 1, 4}) {
        CAPTURE(size);
        CAPTURE(offset);
        const Vector values = gradient_values(size, 1), before = gradient_values(size, 2);
        const Vector expected = accumulated(values, before, rule);
        const ShiftedGradient gradient(values, offset, device);
        Buffer<float> residual = on_device(before, device);
        PassResult result(device);
        result.reserve(size);
        const std::size_t begin = size / 3, end = size - size / 5;
        const PassRequest request{.kind = Kind::kThreshold, .threshold = 0.5f, .begin = begin, .end = end};
        accumulate_residual(request, gradient.view(), rule, residual.view(), result);
        CHECK(to_host(residual.view()) == expected);
        CHECK(entries_of(result.selected) == reaching(expected, 0.5f, begin, end));
        CHECK_FALSE(result.non_finite);
      }
    }
  }

  DRAGONN_DEVICE_TEST("momentum is accumulated in front of the residual, heavy ball and Nesterov") {
    constexpr std::size_t kSize = 9001;
    const Vector g = gradient_values(kSize, 1), u0 = gradient_values(kSize, 2), v0 = gradient_values(kSize, 3);
    for (const bool nesterov : {false, true}) {
      Vector u = u0, v = v0;
      for (std::size_t i = 0; i < kSize; ++i) {
        const float added = 2.0f * g[i];
        const float decayed = 0.9f * u[i], both = u[i] + added;
        u[i] = nesterov ? 0.9f * both : decayed + added;
        v[i] = v[i] + u[i];
        if (nesterov) v[i] = v[i] + added;
      }
      const Buffer<float> gradient = on_device(g, device);
      Buffer<float> momentum = on_device(u0, device), velocity = on_device(v0, device);
      PassResult result(device);
      accumulate_momentum({}, gradient.view(), {.scale = 2, .momentum = 0.9f, .nesterov = nesterov}, momentum.view(),
                          velocity.view(), result);
      CHECK(to_host(momentum.view()) == u);
      CHECK(to_host(velocity.view()) == v);
    }
  }

  DRAGONN_DEVICE_TEST("filtered accumulation and differences from an estimate have the CPU's bits") {
    constexpr std::size_t kSize = 9001;
    const Vector g = gradient_values(kSize, 1), h = gradient_values(kSize, 2), s0 = gradient_values(kSize, 3);
    const PassRequest request{.kind = Kind::kSampledThreshold, .end = kSize, .sample = {.stride = 3, .rank = 200}};
    const auto run = [&](const Device& where, int rule) {
      const Buffer<float> gradient = on_device(g, where), estimate = on_device(h, where);
      Buffer<float> state = on_device(s0, where), acc = on_device(g, where);
      PassResult result(where);
      result.reserve(kSize);
      const View<const float> from = std::as_const(estimate).view();
      if (rule < 2) {
        accumulate_filtered(request, gradient.view(), {.scale = 0.3f, .keep = 0.9f, .take = 0.1f, .out = 0.7f},
                            rule == 0 ? View<const float>() : from, state.view(), acc.view(), result);
      } else if (rule == 2) {
        accumulate_difference(request, gradient.view(), 0.3f, from, acc.view(), result);
      } else {
        accumulate_momentum_difference(request, gradient.view(),
                                       {.scale = 0.3f, .momentum = 0.9f, .nesterov = rule == 4}, from, state.view(),
                                       acc.view(), result);
      }
      return std::tuple(to_host(state.view()), to_host(acc.view()), entries_of(result.selected), result.threshold);
    };
    for (int rule = 0; rule < 5; ++rule) CHECK(run(device, rule) == run(Device{}, rule));
  }

  DRAGONN_DEVICE_TEST("a pass selects more than there was room for, and everything that is not 0 at threshold 0") {
    for (const std::size_t size : kSizes) {
      const Vector values = gradient_values(size, 4);
      const Buffer<float> gradient = on_device(values, device);
      Buffer<float> residual = on_device(Vector(size, 0.0f), device);
      PassResult result(device);
      accumulate_residual({.kind = Kind::kThreshold, .end = size}, gradient.view(), {}, residual.view(), result);
      CHECK(entries_of(result.selected) == reaching(values, 0, 0, size));
      CHECK(to_host(residual.view()) == values);
    }
  }

  DRAGONN_DEVICE_TEST("deferred passes give the results of passes that are waited for, each after one wait for all") {
    constexpr std::size_t kSize = 9001;
    const PassRequest requests[] = {
        {},
        {.kind = Kind::kThreshold, .threshold = 0.5f, .begin = 5, .end = 9000},  // has no room: is made again
        {.kind = Kind::kMoments},
        {.kind = Kind::kSampledThreshold, .end = kSize, .sample = {.stride = 7, .key = 99, .rank = 20}}};
    std::vector<Buffer<float>> gradients, deferred_acc, acc;
    std::vector<PassResult> deferred, expected;
    for (std::size_t i = 0; i < std::size(requests); ++i) {
      gradients.push_back(on_device(gradient_values(kSize, i), device));
      for (auto* const residuals : {&deferred_acc, &acc})
        residuals->push_back(on_device(gradient_values(kSize, 10 + i), device));
      PassRequest request = requests[i];
      accumulate_residual(request, gradients[i].view(), {}, acc[i].view(), expected.emplace_back(device));
      request.deferred = true;
      accumulate_residual(request, gradients[i].view(), {}, deferred_acc[i].view(), deferred.emplace_back(device));
    }
    synchronize(device);
    for (std::size_t i = 0; i < std::size(requests); ++i) {
      CAPTURE(i);
      finish_pass(deferred[i]);
      CHECK(deferred[i].unfinished == nullptr);
      CHECK(to_host(deferred_acc[i].view()) == to_host(acc[i].view()));
      CHECK(entries_of(deferred[i].selected) == entries_of(expected[i].selected));
      CHECK(deferred[i].threshold == expected[i].threshold);
      CHECK(deferred[i].moments.sum == expected[i].moments.sum);
      CHECK(deferred[i].moments.largest == expected[i].moments.largest);
      CHECK_FALSE(deferred[i].non_finite);
    }
  }

  DRAGONN_DEVICE_TEST("a pass compares with the threshold of the sample that the plan describes") {
    for (const std::size_t size : {std::size_t{17}, std::size_t{5000}, std::size_t{100003}}) {
      const Vector values = gradient_values(size, 5);
      const SamplePlan plan{.stride = 7, .key = 99, .rank = 20};
      Vector sample;
      for (std::size_t stratum = 0; stratum < sample_strata(size, plan.stride); ++stratum) {
        const std::size_t line = sampled_line(size, plan, stratum);
        for (std::size_t i = line; i < std::min(size, line + kLineElements); ++i)
          sample.push_back(std::fabs(values[i]));
      }
      std::ranges::sort(sample, std::greater<>());
      const float threshold = sample.size() < plan.rank ? 0.0f : sample[plan.rank - 1];
      const Buffer<float> gradient = on_device(values, device);
      PassResult result(device);
      examine({.kind = Kind::kSampledThreshold, .end = size, .sample = plan}, gradient.view(), result);
      CHECK(result.threshold == threshold);
      CHECK(entries_of(result.selected) == reaching(values, threshold, 0, size));
    }
  }

  DRAGONN_DEVICE_TEST("moments of a pass are those of plain sums in double") {
    for (const std::size_t size : kSizes) {
      const Vector values = gradient_values(size, 6);
      double sum = 0, squares = 0, signed_sum = 0;
      float largest = 0;
      for (const float value : values) {
        sum += std::fabs(value);
        squares += static_cast<double>(value) * value;
        signed_sum += value;
        largest = std::max(largest, std::fabs(value));
      }
      const Buffer<float> gradient = on_device(values, device);
      Buffer<float> acc = poisoned(size, device);
      PassResult result(device);
      accumulate_scaled({.kind = Kind::kMoments}, gradient.view(), 1.0f, acc.view(), result);
      CHECK(to_host(acc.view()) == values);
      // Sums of up to 1e5 terms in double, whose magnitudes add up to `sum`: 1e5 roundings of 1.1e-16.
      CHECK(std::fabs(result.moments.sum - sum) <= 1e-11 * sum);
      CHECK(std::fabs(result.moments.sum_squares - squares) <= 1e-11 * squares);
      CHECK(std::fabs(result.moments.signed_sum - signed_sum) <= 1e-11 * sum);
      CHECK(result.moments.largest == largest);
      const Moments alone = magnitude_moments(acc.view());
      CHECK(alone.sum == result.moments.sum);
      CHECK(alone.sum_squares == result.moments.sum_squares);
      CHECK(alone.signed_sum == result.moments.signed_sum);
    }
  }

  DRAGONN_DEVICE_TEST("a pass reports NaN and infinity, and selects no NaN") {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    for (const float bad : {kNan, -kNan, std::numeric_limits<float>::infinity()}) {
      for (const std::size_t place : {std::size_t{0}, std::size_t{4095}, std::size_t{9000}}) {
        Vector values = gradient_values(9001, 7);
        values[place] = bad;
        const Buffer<float> gradient = on_device(values, device);
        PassResult result(device);
        for (const Kind kind : {Kind::kNone, Kind::kMoments, Kind::kThreshold}) {
          examine({.kind = kind, .threshold = 1, .end = values.size()}, gradient.view(), result);
          CHECK(result.non_finite);
        }
        CHECK(entries_of(result.selected) == reaching(values, 1, 0, values.size()));
      }
    }
  }

  DRAGONN_DEVICE_TEST("a selection in a range gives the indices of the whole vector") {
    const Vector values = gradient_values(20011, 8);
    const Buffer<float> acc = on_device(values, device);
    SparseVector selected(device);
    for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, 20011}, {4097, 12345}, {1, 2}, {7, 7}}) {
      select_threshold_in(acc.view(), 0.25f, begin, end, selected);
      CHECK(entries_of(selected) == reaching(values, 0.25f, begin, end));
    }
  }
}
