// SPDX-License-Identifier: MIT
/// Batch norm, cross-entropy, dropout, embedding and elementwise kernels, below the layers.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "core/buffer.h"
#include "core/rng.h"
#include "core/targets.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/embedding.h"
#include "kernels/nn/losses.h"
#include "kernels/nn/normalization.h"
#include "kernels/nn/sequence_rows.h"
#include "tests/kernels/host_views.h"
#include "tests/support/devices.h"

namespace dragonn::kernels {
namespace {

using dragonn::test::on_device;
using dragonn::test::poisoned;
using dragonn::test::to_host;
using test::in;
using test::out;
using Values = std::vector<float>;

/// Computes the loss with labels in host memory. `gradient` starts as NaN.
LossSums cross_entropy(const Device& device, const Values& logits, const std::vector<std::int32_t>& labels,
                       double smoothing, Values& gradient) {
  const Buffer<float> inputs = on_device(logits, device);
  Buffer<float> gradients = poisoned(logits.size(), device);
  const LossSums result = softmax_cross_entropy(inputs.view(), View<const std::int32_t>(labels),
                                                {logits.size() / labels.size(), smoothing}, gradients.view());
  gradient = to_host(gradients.view());
  return result;
}

/// A plan of batch norm without a residual, and the memory of its passes.
struct BatchNormRun {
  BatchNormRun(const Device& on, const BatchNormSpec& spec, const Values& values, float scales = 1, float shifts = 0)
      : device(on),
        plan(make_batch_norm_plan(device, spec)),
        input(on_device(values, device)),
        scale(on_device(Values(spec.channels, scales), device)),
        shift(on_device(Values(spec.channels, shifts), device)),
        mean(on_device(Values(spec.channels, 0.0f), device)),
        variance(on_device(Values(spec.channels, 1.0f), device)),
        output(poisoned(values.size(), device)),
        gradient(poisoned(values.size(), device)),
        scale_gradient(poisoned(spec.channels, device)),
        shift_gradient(poisoned(spec.channels, device)),
        saved(poisoned(plan->memory().saved, device)),
        scratch(poisoned(plan->memory().forward_scratch, device)),
        backward_scratch(poisoned(plan->memory().backward_scratch, device)) {}

  void forward() {
    const TypedView<const float> read = input.view();
    const View<const float> parameters[] = {scale.view(), shift.view()};
    const View<float> statistics[] = {mean.view(), variance.view()};
    plan->forward({.inputs = {&read, 1},
                   .parameters = parameters,
                   .statistics = statistics,
                   .output = output.view(),
                   .saved = saved.view(),
                   .scratch = scratch.view()});
  }
  void backward(const Values& output_gradient) {
    const Buffer<float> from_output = on_device(output_gradient, device);
    const TypedView<const float> read = input.view(), wanted = from_output.view();
    const TypedView<float> written = gradient.view();
    const View<const float> parameters[] = {scale.view(), shift.view()};
    const View<float> parameter_gradients[] = {scale_gradient.view(), shift_gradient.view()};
    plan->backward({.inputs = {&read, 1},
                    .output = output.view(),
                    .parameters = parameters,
                    .output_gradients = {&wanted, 1},
                    .input_gradients = {&written, 1},
                    .parameter_gradients = parameter_gradients,
                    .saved = saved.view(),
                    .scratch = backward_scratch.view()});
  }

  Device device;
  std::unique_ptr<Plan> plan;
  Buffer<float> input, scale, shift, mean, variance, output, gradient, scale_gradient, shift_gradient, saved, scratch,
      backward_scratch;
};

}  // namespace

TEST_SUITE("kernels") {
  DRAGONN_DEVICE_TEST("cross-entropy of equal logits is the logarithm of the classes") {
    Values gradient(4);
    const LossSums result = cross_entropy(device, {1, 1, 1, 1}, {2}, 0, gradient);
    CHECK(result.loss_sum == doctest::Approx(std::log(4.0)));
    CHECK(result.correct == 0);  // the first of equal logits counts as the prediction
    CHECK(gradient == Values{0.25f, 0.25f, -0.75f, 0.25f});
  }

  DRAGONN_DEVICE_TEST("cross-entropy averages its gradient over the rows and smooths labels") {
    Values gradient(4);
    const double smoothing = 0.2, exponential = std::exp(2.0);
    const LossSums result = cross_entropy(device, {2, 0, 0, 0}, {0, 1}, smoothing, gradient);
    const double p = exponential / (exponential + 1);
    CHECK(result.loss_sum == doctest::Approx(-0.9 * std::log(p) - 0.1 * std::log(1 - p) + std::log(2.0)));
    CHECK(result.correct == 1);
    CHECK(gradient[0] == doctest::Approx((p - 0.9) / 2));
    CHECK(gradient[1] == doctest::Approx((1 - p - 0.1) / 2));
    CHECK(gradient[2] == doctest::Approx((0.5 - 0.1) / 2));
    CHECK(gradient[3] == doctest::Approx((0.5 - 0.9) / 2));
  }

  DRAGONN_DEVICE_TEST("cross-entropy of ignored rows counts nowhere") {
    Values gradient(6, 7.0f);
    const LossSums result = cross_entropy(device, {5, 1, 1, 1, 9, 0}, {kIgnoredLabel, 0, kIgnoredLabel}, 0, gradient);
    CHECK(result.loss_sum == doctest::Approx(std::log(2.0)));
    CHECK(result.count == 1);
    CHECK(result.correct == 1);
    CHECK(gradient == Values{0, 0, -0.5f, 0.5f, 0, 0});
  }

  DRAGONN_DEVICE_TEST("cross-entropy of long rows is that of a sum in double") {
    for (const std::size_t classes : {15, 16, 17, 100, 1003}) {
      CAPTURE(classes);
      Values logits(classes), gradient(classes);
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c) {
        logits[c] = static_cast<float>(c % 37) / 8 - 2;
        sum += std::exp(static_cast<double>(logits[c]));
      }
      const LossSums result = cross_entropy(device, logits, {5}, 0, gradient);
      CHECK(result.loss_sum == doctest::Approx(std::log(sum) - logits[5]).epsilon(1e-6));
      // Rounding of the exponentials: a few units in the last place of numbers below 1.
      for (std::size_t c = 0; c < classes; ++c)
        CHECK(std::abs(gradient[c] - (std::exp(logits[c] - std::log(sum)) - (c == 5 ? 1 : 0))) < 1e-6);
    }
  }

  DRAGONN_DEVICE_TEST("a logit that is not a number shows in loss and gradient") {
    Values gradient(20), logits(20, 1.0f);
    logits[13] = std::nanf("");
    CHECK(std::isnan(cross_entropy(device, logits, {2}, 0, gradient).loss_sum));
    CHECK(std::isnan(gradient[2]));
  }

  DRAGONN_DEVICE_TEST("cross-entropy stays finite for huge logits and works in place") {
    Buffer<float> logits = on_device(Values{1e30f, -1e30f, 0}, device);
    const std::vector<std::int32_t> labels{0};
    const LossSums result = softmax_cross_entropy(logits.view(), View<const std::int32_t>(labels), {3}, logits.view());
    CHECK(result.loss_sum == 0);
    CHECK(result.correct == 1);
    CHECK(to_host(logits.view()) == Values{0, 0, 0});
  }

  DRAGONN_DEVICE_TEST("cross-entropy takes labels of its device, and refuses those out of range by their row") {
    const Buffer<float> logits = on_device(Values{0, 0, 3, 0, 1, 2}, device);
    const Buffer<std::int32_t> good = on_device(std::vector<std::int32_t>{1, 0, 1}, device);
    const LossSums result = softmax_cross_entropy(logits.view(), good.view(), {2}, {});
    CHECK(result.loss_sum == doctest::Approx(std::log(2.0) + std::log1p(std::exp(-3.0)) + std::log1p(std::exp(-1.0))));
    CHECK(result.correct == 2);
    CHECK(result.count == 3);
    for (const std::int32_t bad : {2, -2}) {
      const Buffer<std::int32_t> labels = on_device(std::vector<std::int32_t>{1, bad, 7}, device);
      CHECK_THROWS_WITH_AS(softmax_cross_entropy(logits.view(), labels.view(), {2}, {}),
                           doctest::Contains("of row 1 of the batch: valid are 0 to 1"), DataError);
    }
  }

  DRAGONN_DEVICE_TEST(
      "cross-entropy leaves out columns behind the classes, and may divide by the rows of a whole batch") {
    const std::vector<std::int32_t> labels{2, kIgnoredLabel, 0};
    Values plain;
    const LossSums expected = cross_entropy(device, {1, 2, 3, 4, 5, 6, 0, -1, 0.5f}, labels, 0.1, plain);
    const Buffer<float> padded = on_device(Values{1, 2, 3, 90, NAN, 4, 5, 6, 0, 0, 0, -1, 0.5f, 7, 7}, device);
    Buffer<float> gradient = poisoned(15, device);
    const View<const std::int32_t> rows(labels);
    const LossSums sums = softmax_cross_entropy(padded.view(), rows, {3, 0.1, 5}, gradient.view());
    CHECK(sums.loss_sum == expected.loss_sum);
    CHECK(sums.correct == expected.correct);
    CHECK(sums.count == 2);
    const Values wide = to_host(gradient.view());
    for (std::size_t row = 0; row < 3; ++row) {
      for (std::size_t c = 0; c < 3; ++c) CHECK(wide[row * 5 + c] == plain[row * 3 + c]);
      CHECK(wide[row * 5 + 3] == 0);
      CHECK(wide[row * 5 + 4] == 0);
    }
    softmax_cross_entropy(padded.view(), rows, {3, 0.1, 5, 8}, gradient.view());  // a quarter of 8 rows
    const Values part = to_host(gradient.view());
    for (std::size_t i = 0; i < part.size(); ++i) CHECK(part[i] == doctest::Approx(wide[i] / 4));
    CHECK(count_labels(rows, 3) == 2);
    CHECK_THROWS_WITH_AS(count_labels(rows, 2), doctest::Contains("label 2 of row 0 of the batch"), DataError);
    CHECK_THROWS_AS(softmax_cross_entropy(padded.view(), rows, {5, 0, 3}, {}), ShapeError);
  }

  DRAGONN_DEVICE_TEST("batch norm keeps its precision far from zero") {
    // Mean 1000, deviation 1: a one-pass sum of squares in float32 would lose the variance.
    for (const auto& [rows, channels] : {std::pair<std::size_t, std::size_t>{4001, 3}, {66'001, 33}}) {
      CAPTURE(rows);
      Rng stream(1, "test");
      Values input(rows * channels);
      for (float& value : input) value = 1000.0f + stream.normal();
      BatchNormRun run(device, {.rows = rows, .channels = channels, .momentum = 1.0f}, input);
      run.forward();
      const Values mean = to_host(run.mean.view()), variance = to_host(run.variance.view());
      for (std::size_t c = 0; c < channels; ++c) {
        double expected_mean = 0, deviation = 0;
        for (std::size_t r = 0; r < rows; ++r) expected_mean += input[r * channels + c];
        expected_mean /= static_cast<double>(rows);
        for (std::size_t r = 0; r < rows; ++r) {
          const double difference = input[r * channels + c] - expected_mean;
          deviation += difference * difference;
        }
        CHECK(mean[c] == doctest::Approx(expected_mean).epsilon(1e-7));
        CHECK(variance[c] == doctest::Approx(deviation / static_cast<double>(rows - 1)).epsilon(1e-4));
      }
      // A gradient that is the same everywhere moves the shift, and nothing else.
      run.backward(Values(input.size(), 1.0f));
      CHECK(to_host(run.shift_gradient.view()) == Values(channels, static_cast<float>(rows)));
      float largest = 0;
      for (const float value : to_host(run.gradient.view())) largest = std::max(largest, std::abs(value));
      CHECK(largest < 1e-3);  // the mean of a column is rounded to 6e-5 of its deviation
    }
  }

  TEST_CASE("batch norm gives the same bits on any number of threads") {
    const BatchNormSpec spec{.rows = 3000, .channels = 21, .relu = true};
    const auto run = [&](int threads) {
      omp_set_num_threads(threads);
      Rng stream(1, "test");
      Values input(spec.rows * spec.channels);
      for (float& value : input) value = stream.normal();
      BatchNormRun passes({}, spec, input, 0.7f, 0.1f);
      passes.forward();
      passes.backward(input);
      Values gradient = to_host(passes.gradient.view());
      for (const Buffer<float>* own : {&passes.scale_gradient, &passes.shift_gradient})
        std::ranges::copy(to_host(own->view()), std::back_inserter(gradient));
      return gradient;
    };
    const Values expected = run(1);
    CHECK(run(2) == expected);
    CHECK(run(3) == expected);
    omp_set_num_threads(1);
  }

  DRAGONN_DEVICE_TEST("fused ReLU lets NaN through") {
    const Values input{std::numeric_limits<float>::quiet_NaN(), 1};
    BatchNormRun run(device, {.rows = 2, .channels = 1, .relu = true, .training = false}, input);
    run.forward();
    const Values output = to_host(run.output.view());
    CHECK(std::isnan(output[0]));
    CHECK(output[1] == doctest::Approx(1).epsilon(1e-4));
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

  DRAGONN_DEVICE_TEST("dropout keyed alike draws alike") {
    const Values ones(1003, 1.0f);
    const auto draw = [&](const Device& on, float rate, std::uint64_t key) {
      const Buffer<float> input = on_device(ones, on);
      const Buffer<std::uint64_t> keys = on_device(std::vector{key}, on);
      Buffer<float> output = poisoned(ones.size(), on);
      dropout(input.view(), rate, keys.view(), output.view());
      return to_host(output.view());
    };
    CHECK(draw(device, 0.5f, 1) == draw(device, 0.5f, 1));
    CHECK(draw(device, 0.5f, 1) != draw(device, 0.5f, 2));
    CHECK(draw(device, 0.0f, 1) == ones);
    CHECK(draw(device, 0.3f, 7) == draw({}, 0.3f, 7));  // every device draws what the CPU draws
  }

  DRAGONN_DEVICE_TEST("axes swapped twice are as they were, in tiles that do not fill the matrix") {
    for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{1, 1}, {3, 70}, {65, 33}, {64, 32}}) {
      Values values(2 * rows * columns);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
      const Buffer<float> input = on_device(values, device);
      Buffer<float> swapped = poisoned(values.size(), device), back = poisoned(values.size(), device);
      swap_axes(input.view(), rows, columns, swapped.view());
      swap_axes(swapped.view(), columns, rows, back.view());
      CHECK(to_host(back.view()) == values);
      const Values there = to_host(swapped.view());
      CHECK(there[rows * columns + (columns - 1) * rows] == values[rows * columns + columns - 1]);
    }
  }

  DRAGONN_DEVICE_TEST("the gradient of an embedding sums in the order of the tokens, to the same bits everywhere") {
    constexpr std::size_t kTokens = 700, kRows = 13, kWidth = 300;
    Rng stream(5, "tokens");
    Values tokens(kTokens), gradient(kTokens * kWidth);
    for (float& token : tokens) token = static_cast<float>(stream.below(kRows - 1));  // the last one never appears
    for (float& value : gradient) value = stream.normal();
    const auto run = [&](const Device& on) {
      const Buffer<float> of = on_device(tokens, on), output_gradient = on_device(gradient, on);
      Buffer<float> table_gradient = poisoned(kRows * kWidth, on);
      embed_backward(of.view(), output_gradient.view(), kWidth, table_gradient.view(), false);
      return to_host(table_gradient.view());
    };
    const Values result = run(device);
    CHECK(result == run({}));
    CHECK(result[(kRows - 1) * kWidth] == 0);
    const Buffer<float> of = on_device(tokens, device), output_gradient = on_device(gradient, device);
    Buffer<float> sum = on_device(Values(kRows * kWidth, 2.0f), device);
    embed_backward(of.view(), output_gradient.view(), kWidth, sum.view(), true);
    const Values added = to_host(sum.view());
    for (std::size_t i = 0; i < added.size(); ++i) CHECK(added[i] == doctest::Approx(result[i] + 2).epsilon(1e-5));
    CHECK(added[(kRows - 1) * kWidth] == 2);
  }
}

}  // namespace dragonn::kernels
