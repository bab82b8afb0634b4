// SPDX-License-Identifier: MIT
/// Batch norm, cross-entropy, dropout and elementwise kernels, below the layers.
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "core/buffer.h"
#include "core/rng.h"
#include "core/targets.h"
#include "kernels/batch_norm.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/softmax_cross_entropy.h"
#include "tests/kernels/host_views.h"

namespace dragonn::kernels {
namespace {

using test::in;
using test::out;
using Values = std::vector<float>;

CrossEntropy cross_entropy(const Values& logits, const std::vector<std::int32_t>& labels, double smoothing,
                           Values& gradient) {
  return softmax_cross_entropy(in(logits), View<const std::int32_t>(labels), logits.size() / labels.size(), smoothing,
                               out(gradient));
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("cross-entropy of equal logits is the logarithm of the classes") {
    Values gradient(4);
    const CrossEntropy result = cross_entropy({1, 1, 1, 1}, {2}, 0, gradient);
    CHECK(result.loss_sum == doctest::Approx(std::log(4.0)));
    CHECK(result.correct == 0);  // the first of equal logits counts as the prediction
    CHECK(gradient == Values{0.25f, 0.25f, -0.75f, 0.25f});
  }

  TEST_CASE("cross-entropy averages its gradient over the rows and smooths labels") {
    Values gradient(4);
    const double smoothing = 0.2, exponential = std::exp(2.0);
    const CrossEntropy result = cross_entropy({2, 0, 0, 0}, {0, 1}, smoothing, gradient);
    const double p = exponential / (exponential + 1);
    CHECK(result.loss_sum == doctest::Approx(-0.9 * std::log(p) - 0.1 * std::log(1 - p) + std::log(2.0)));
    CHECK(result.correct == 1);
    CHECK(gradient[0] == doctest::Approx((p - 0.9) / 2));
    CHECK(gradient[1] == doctest::Approx((1 - p - 0.1) / 2));
    CHECK(gradient[2] == doctest::Approx((0.5 - 0.1) / 2));
    CHECK(gradient[3] == doctest::Approx((0.5 - 0.9) / 2));
  }

  TEST_CASE("cross-entropy of ignored rows counts nowhere") {
    Values gradient(6, 7.0f);
    const CrossEntropy result = cross_entropy({5, 1, 1, 1, 9, 0}, {kIgnoredLabel, 0, kIgnoredLabel}, 0, gradient);
    CHECK(result.loss_sum == doctest::Approx(std::log(2.0)));
    CHECK(result.count == 1);
    CHECK(result.correct == 1);
    CHECK(gradient == Values{0, 0, -0.5f, 0.5f, 0, 0});
  }

  TEST_CASE("cross-entropy of long rows is that of a sum in double") {
    for (const std::size_t classes : {15, 16, 17, 100, 1003}) {
      CAPTURE(classes);
      Values logits(classes), gradient(classes);
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c) {
        logits[c] = static_cast<float>(c % 37) / 8 - 2;
        sum += std::exp(static_cast<double>(logits[c]));
      }
      const CrossEntropy result = cross_entropy(logits, {5}, 0, gradient);
      CHECK(result.loss_sum == doctest::Approx(std::log(sum) - logits[5]).epsilon(1e-6));
      // Rounding of the exponentials: a few units in the last place of numbers below 1.
      for (std::size_t c = 0; c < classes; ++c)
        CHECK(std::abs(gradient[c] - (std::exp(logits[c] - std::log(sum)) - (c == 5 ? 1 : 0))) < 1e-6);
    }
  }

  TEST_CASE("a logit that is not a number shows in loss and gradient") {
    Values gradient(20), logits(20, 1.0f);
    logits[13] = std::nanf("");
    CHECK(std::isnan(cross_entropy(logits, {2}, 0, gradient).loss_sum));
    CHECK(std::isnan(gradient[2]));
  }

  TEST_CASE("cross-entropy stays finite for huge logits and works in place") {
    Values logits{1e30f, -1e30f, 0};
    const std::vector<std::int32_t> labels{0};
    const CrossEntropy result =
        softmax_cross_entropy(in(logits), View<const std::int32_t>(labels), 3, 0, View<float>(std::span(logits)));
    CHECK(result.loss_sum == 0);
    CHECK(result.correct == 1);
    CHECK(logits == Values{0, 0, 0});
  }

  TEST_CASE("batch norm keeps its precision far from zero") {
    // Mean 1000, deviation 1: a one-pass sum of squares in float32 would lose the variance.
    const std::size_t rows = 4001, channels = 3;
    Rng stream(1, "test");
    Values input(rows * channels);
    for (float& value : input) value = 1000.0f + stream.normal();
    const auto plan = make_batch_norm_plan({}, {.rows = rows, .channels = channels, .momentum = 1.0f});
    Values scale(channels, 1.0f), shift(channels, 0.0f), mean(channels), variance(channels), output(input.size());
    Buffer<float> saved(plan->memory().saved), scratch(plan->memory().forward_scratch);
    plan->forward_train(
        {in(input), {}, in(scale), in(shift), out(mean), out(variance), out(output), saved.view(), scratch.view()});
    for (std::size_t c = 0; c < channels; ++c) {
      double expected_mean = 0, deviation = 0;
      for (std::size_t r = 0; r < rows; ++r) expected_mean += input[r * channels + c];
      expected_mean /= static_cast<double>(rows);
      for (std::size_t r = 0; r < rows; ++r) deviation += std::pow(input[r * channels + c] - expected_mean, 2);
      CHECK(mean[c] == doctest::Approx(expected_mean).epsilon(1e-7));
      CHECK(variance[c] == doctest::Approx(deviation / static_cast<double>(rows - 1)).epsilon(1e-4));
    }
  }

  TEST_CASE("batch norm gives the same bits on any number of threads") {
    const BatchNormSpec spec{.rows = 3000, .channels = 21, .relu = true};
    const auto run = [&](int threads) {
      omp_set_num_threads(threads);
      const auto plan = make_batch_norm_plan({}, spec);
      Rng stream(1, "test");
      Values input(spec.rows * spec.channels), output(input.size()), gradient(input.size());
      for (float& value : input) value = stream.normal();
      Values scale(21, 0.7f), shift(21, 0.1f), mean(21), variance(21), scale_gradient(21), shift_gradient(21);
      Buffer<float> saved(plan->memory().saved), forward(plan->memory().forward_scratch),
          backward(plan->memory().backward_scratch);
      plan->forward_train(
          {in(input), {}, in(scale), in(shift), out(mean), out(variance), out(output), saved.view(), forward.view()});
      const View<const float> output_gradient = in(input);
      plan->backward({in(input),
                      in(output),
                      in(scale),
                      in(shift),
                      std::span(&output_gradient, 1),
                      out(gradient),
                      {},
                      out(scale_gradient),
                      out(shift_gradient),
                      saved.view(),
                      backward.view()});
      gradient.insert(gradient.end(), scale_gradient.begin(), scale_gradient.end());
      return gradient;
    };
    const Values expected = run(1);
    CHECK(run(2) == expected);
    CHECK(run(3) == expected);
    omp_set_num_threads(1);
  }

  TEST_CASE("fused ReLU lets NaN through") {
    const auto plan = make_batch_norm_plan({}, {.rows = 2, .channels = 1, .relu = true});
    const Values input{std::numeric_limits<float>::quiet_NaN(), 1};
    Values scale(1, 1.0f), shift(1), mean(1), variance(1, 1.0f), output(2);
    Buffer<float> saved(plan->memory().saved), scratch(plan->memory().forward_scratch);
    plan->forward_evaluate(
        {in(input), {}, in(scale), in(shift), out(mean), out(variance), out(output), saved.view(), scratch.view()});
    CHECK(std::isnan(output[0]));
    CHECK(output[1] == doctest::Approx(1).epsilon(1e-4));
    Values sum(2);
    add_relu(in(input), in(input), out(sum));
    CHECK(std::isnan(sum[0]));
  }

  TEST_CASE("elementwise operations work on any length and in place") {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{19}, std::size_t{40000}}) {
      Values a(size), b(size), expected(size), relu(size);
      for (std::size_t i = 0; i < size; ++i) {
        a[i] = static_cast<float>(i % 7) - 3;
        b[i] = static_cast<float>(i % 5) - 2;
        expected[i] = a[i] + b[i];
        relu[i] = a[i] > 0 ? b[i] : 0;
      }
      Values masked = b;
      relu_backward(in(a), in(masked), out(masked));
      CHECK(masked == relu);
      add(in(a), in(b), out(a));
      CHECK(a == expected);
    }
    Values a(2), b(3);
    CHECK_THROWS_AS(add(in(a), in(b), out(a)), ShapeError);
    CHECK_THROWS_AS(copy(in(a), out(b)), ShapeError);
  }

  TEST_CASE("dropout keyed alike draws alike") {
    const Values ones(100, 1.0f);
    const auto draw = [&](std::uint64_t key) {
      Values output(100);
      dropout(in(ones), 0.5f, key, out(output));
      return output;
    };
    CHECK(draw(1) == draw(1));
    CHECK(draw(1) != draw(2));
    Values all(100);
    dropout(in(ones), 0.0f, 1, out(all));
    CHECK(all == ones);
  }
}

}  // namespace dragonn::kernels
