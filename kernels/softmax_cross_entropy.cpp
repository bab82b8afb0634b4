// SPDX-License-Identifier: MIT
#include "kernels/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace dragonn::kernels {
namespace {

/// Loss of one row. exp is taken of logit - largest logit, so that nothing overflows.
double row_loss(std::span<const float> logits, std::size_t label, double smoothing, std::span<float> gradient,
                double rows) {
  const double largest = *std::ranges::max_element(logits);
  double exponentials = 0, sum = 0;
  for (float logit : logits) {
    exponentials += std::exp(logit - largest);
    sum += logit - largest;
  }
  const double classes = static_cast<double>(logits.size());
  const double normalizer = std::log(exponentials);
  const double loss =
      (1 - smoothing) * (normalizer - (logits[label] - largest)) + smoothing * (normalizer - sum / classes);
  if (gradient.empty()) return loss;
  for (std::size_t c = 0; c < logits.size(); ++c) {
    const double target = (c == label ? 1 - smoothing : 0.0) + smoothing / classes;
    gradient[c] = static_cast<float>((std::exp(logits[c] - largest - normalizer) - target) / rows);
  }
  return loss;
}

CrossEntropy on_cpu(View<const float> logits, View<const std::int32_t> labels, std::size_t classes, double smoothing,
                    View<float> gradient) {
  const std::span<const float> all_logits = logits.host();
  const std::span<const std::int32_t> all_labels = labels.host();
  const double rows = static_cast<double>(all_labels.size());
  CrossEntropy result;
  for (std::size_t row = 0; row < all_labels.size(); ++row) {
    const auto row_logits = all_logits.subspan(row * classes, classes);
    const std::int32_t label = all_labels[row];
    if (label < 0 || static_cast<std::size_t>(label) >= classes)
      throw DataError(fmt::format("label {} of row {} of the batch: valid are 0 to {}", label, row, classes - 1));
    const auto prediction = std::ranges::max_element(row_logits) - row_logits.begin();
    result.correct += prediction == label ? 1 : 0;
    result.loss_sum +=
        row_loss(row_logits, static_cast<std::size_t>(label), smoothing,
                 gradient.empty() ? std::span<float>() : gradient.host().subspan(row * classes, classes), rows);
  }
  return result;
}

}  // namespace

CrossEntropyTable& cross_entropy_table() {
  static CrossEntropyTable table("softmax_cross_entropy", on_cpu);
  return table;
}

CrossEntropy softmax_cross_entropy(View<const float> logits, View<const std::int32_t> labels, std::size_t classes,
                                   double smoothing, View<float> gradient) {
  if (logits.size() != labels.size() * classes || (!gradient.empty() && gradient.size() != logits.size()))
    throw ShapeError(fmt::format("cross-entropy of {} logits, {} labels, {} classes and a gradient of {}",
                                 logits.size(), labels.size(), classes, gradient.size()));
  return cross_entropy_table().at(logits.device())(logits, labels, classes, smoothing, gradient);
}

}  // namespace dragonn::kernels
