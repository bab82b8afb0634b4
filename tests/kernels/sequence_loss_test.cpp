// SPDX-License-Identifier: MIT
/// CTC against the sum over all alignments, and the multi-label loss against its definition.
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/rng.h"
#include "kernels/nn/losses.h"
#include "tests/support/devices.h"

namespace dragonn::kernels {
namespace {

using dragonn::test::on_device;
using dragonn::test::poisoned;
using dragonn::test::to_host;
using Labels = std::vector<std::int32_t>;

Targets targets_of(const Labels& labels, const Labels& offsets) {
  return {View<const std::int32_t>(labels), View<const std::int32_t>(offsets)};
}

std::vector<float> random_logits(std::size_t count, std::uint64_t seed) {
  Rng stream(seed, "logits");
  std::vector<float> values(count);
  for (float& value : values) value = 2 * stream.normal();
  return values;
}

/// Returns the labels of a path of classes: repeats merged, then blanks dropped.
Labels collapse(const Labels& path) {
  Labels labels;
  for (std::size_t t = 0; t < path.size(); ++t)
    if (path[t] != kCtcBlank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  return labels;
}

/// Computes -log of the sum of the probabilities of all paths that give `labels`, and its gradient, from the
/// definition.
struct BruteForce {
  BruteForce(const float* logits, std::size_t steps, std::size_t classes, const Labels& labels)
      : gradient(steps * classes) {
    std::vector<double> softmax(steps * classes);
    for (std::size_t t = 0; t < steps; ++t) {
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(logits[t * classes + c]));
      for (std::size_t c = 0; c < classes; ++c) softmax[t * classes + c] = std::exp(logits[t * classes + c]) / sum;
    }
    double total = 0;
    std::vector<double> through(steps * classes);  // probability of the paths that are at c in step t
    Labels path(steps);
    for (bool more = true; more; more = advance(path, classes)) {
      if (collapse(path) != labels) continue;
      double probability = 1;
      for (std::size_t t = 0; t < steps; ++t) probability *= softmax[t * classes + static_cast<std::size_t>(path[t])];
      total += probability;
      for (std::size_t t = 0; t < steps; ++t) through[t * classes + static_cast<std::size_t>(path[t])] += probability;
    }
    loss = -std::log(total);
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = softmax[i] - through[i] / total;
  }

  static bool advance(Labels& path, std::size_t classes) {
    for (std::int32_t& value : path) {
      if (static_cast<std::size_t>(++value) < classes) return true;
      value = 0;
    }
    return false;
  }

  double loss = 0;
  std::vector<double> gradient;
};

double run_ctc(const Device& device, std::size_t steps, std::size_t classes, const std::vector<float>& logits,
               const Targets& targets, const Labels& lengths, std::vector<float>& gradient) {
  Buffer<double> scratch = on_device(
      std::vector<double>(ctc_scratch(device, steps, targets), std::numeric_limits<double>::quiet_NaN()), device);
  const Buffer<float> inputs = on_device(logits, device);
  Buffer<float> gradients = poisoned(logits.size(), device);
  const double loss = ctc(
      {targets.offsets.size() - 1, steps, classes, inputs.view(), targets, lengths, gradients.view(), scratch.view()});
  gradient = to_host(gradients.view());
  return loss;
}

LossSums run_multi_label(const Device& device, const std::vector<float>& logits, const Targets& targets,
                         std::size_t classes, std::vector<float>& gradient) {
  const Buffer<float> inputs = on_device(logits, device);
  Buffer<float> gradients = poisoned(logits.size(), device);
  const LossSums result = multi_label(inputs.view(), targets, classes, gradients.view());
  gradient = to_host(gradients.view());
  return result;
}

}  // namespace

TEST_SUITE("kernels") {
  DRAGONN_DEVICE_TEST("CTC is the sum over all alignments, with repeats, empty targets and any lengths") {
    constexpr std::size_t kSteps = 5, kClasses = 3;
    const std::vector<Labels> targets{{1, 2}, {1, 1}, {}, {2}, {1, 2, 1}, {2, 2, 2}, {1, 1, 2, 2}};
    for (const Labels& labels : targets)
      for (std::int32_t length = 1; length <= static_cast<std::int32_t>(kSteps); ++length) {
        std::size_t needed = labels.size();
        for (std::size_t i = 1; i < labels.size(); ++i) needed += labels[i] == labels[i - 1] ? 1 : 0;
        if (needed > static_cast<std::size_t>(length)) continue;
        CAPTURE(labels.size());
        CAPTURE(length);
        // A second sample, so that samples and the division by their number are told apart.
        Labels all = labels;
        all.push_back(2);
        const Labels offsets{0, static_cast<std::int32_t>(labels.size()), static_cast<std::int32_t>(all.size())};
        const std::vector<float> logits = random_logits(2 * kSteps * kClasses, 3);
        std::vector<float> gradient;
        const double loss = run_ctc(device, kSteps, kClasses, logits, targets_of(all, offsets), {length, 5}, gradient);
        const BruteForce first(logits.data(), static_cast<std::size_t>(length), kClasses, labels);
        const BruteForce second(logits.data() + kSteps * kClasses, kSteps, kClasses, {2});
        // The exponentials of the softmax are float32.
        CHECK(loss == doctest::Approx(first.loss + second.loss).epsilon(1e-6));
        for (std::size_t i = 0; i < kSteps * kClasses; ++i) {
          const double expected = i < first.gradient.size() ? first.gradient[i] / 2 : 0.0;
          CHECK(std::abs(gradient[i] - expected) < 1e-6);
          CHECK(std::abs(gradient[kSteps * kClasses + i] - second.gradient[i] / 2) < 1e-6);
        }
      }
  }

  DRAGONN_DEVICE_TEST("CTC of a long sequence with tiny probabilities stays finite") {
    constexpr std::size_t kSteps = 400, kClasses = 29;
    std::vector<float> logits = random_logits(kSteps * kClasses, 5), gradient;
    for (float& value : logits) value *= 20;
    Labels labels;
    for (std::int32_t i = 0; i < 150; ++i) labels.push_back(1 + i * i % 28);
    const Labels offsets{0, 150};
    CHECK(std::isfinite(run_ctc(device, kSteps, kClasses, logits, targets_of(labels, offsets), {}, gradient)));
    // At every step the probabilities of softmax and of the places sum to 1.
    for (std::size_t t = 0; t < kSteps; ++t) {
      double sum = 0;
      for (std::size_t c = 0; c < kClasses; ++c) sum += gradient[t * kClasses + c];
      CHECK(std::abs(sum) < 1e-5);
    }
  }

  DRAGONN_DEVICE_TEST("CTC refuses labels out of range and more labels than steps") {
    const std::vector<float> logits(6, 0.0f);
    std::vector<float> gradient;
    const auto run = [&](const Labels& labels) {
      const Labels offsets{0, static_cast<std::int32_t>(labels.size())};
      return run_ctc(device, 2, 3, logits, targets_of(labels, offsets), {}, gradient);
    };
    CHECK_THROWS_WITH_AS(run({3}), "label 3 at position 0 of sample 0 of the batch: valid are 1 to 2", DataError);
    CHECK_THROWS_AS(run({0}), DataError);
    CHECK_THROWS_WITH_AS(run({1, 1}), "sample 0 of the batch has 2 time steps for 2 labels: it needs at least 3",
                         DataError);
    CHECK_NOTHROW(run({1, 2}));
    const Labels one{1}, offsets{0, 2};
    CHECK_THROWS_AS(run_ctc(device, 2, 3, logits, targets_of(one, offsets), {}, gradient), ShapeError);
  }

  DRAGONN_DEVICE_TEST("a logit that is not a number shows in CTC") {
    std::vector<float> logits(6, 0.0f), gradient;
    logits[4] = std::nanf("");
    const Labels labels{1}, offsets{0, 1};
    CHECK(std::isnan(run_ctc(device, 2, 3, logits, targets_of(labels, offsets), {}, gradient)));
    CHECK(std::isnan(gradient[0]));
  }

  DRAGONN_DEVICE_TEST("the multi-label loss is a logistic regression for every class") {
    constexpr std::size_t kClasses = 37;
    const std::vector<float> logits = random_logits(3 * kClasses, 7);
    const Labels labels{0, 5, 36, 2}, offsets{0, 3, 3, 4};
    std::vector<float> gradient;
    const LossSums result = run_multi_label(device, logits, targets_of(labels, offsets), kClasses, gradient);
    std::vector<bool> positive(logits.size());
    for (const std::size_t place : {std::size_t{0}, std::size_t{5}, std::size_t{36}, 2 * kClasses + 2})
      positive[place] = true;
    double loss = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double x = logits[i], y = positive[i] ? 1 : 0;
      loss += std::log1p(std::exp(x)) - y * x;
      CHECK(std::abs(gradient[i] - (1 / (1 + std::exp(-x)) - y) / 3) < 1e-6);  // rounding of float32 below 1
    }
    CHECK(result.loss_sum == doctest::Approx(loss).epsilon(1e-6));
  }

  DRAGONN_DEVICE_TEST("the multi-label loss counts samples whose largest logit is one of theirs") {
    const std::vector<float> logits{1, 5, 2, 7, 0, 0, 100, -100, 0};
    const Labels labels{0, 1, 2}, offsets{0, 2, 3, 3};
    std::vector<float> gradient;
    const LossSums result = run_multi_label(device, logits, targets_of(labels, offsets), 3, gradient);
    CHECK(result.correct == 1);
    CHECK(result.loss_sum < 200);  // 100 for the label that is missing; nothing overflows
  }

  DRAGONN_DEVICE_TEST("the multi-label loss refuses labels out of range or order") {
    const Buffer<float> logits = on_device(std::vector<float>(3, 0.0f), device);
    const auto run = [&](const Labels& labels) {
      const Labels offsets{0, static_cast<std::int32_t>(labels.size())};
      return multi_label(logits.view(), targets_of(labels, offsets), 3, {});
    };
    CHECK_THROWS_WITH_AS(run({3}), "label 3 of sample 0 of the batch: valid are 0 to 2", DataError);
    CHECK_THROWS_AS(run({-1}), DataError);
    CHECK_THROWS_AS(run({1, 1}), DataError);
    CHECK_THROWS_AS(run({2, 0}), DataError);
  }
}

}  // namespace dragonn::kernels
