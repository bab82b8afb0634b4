// SPDX-License-Identifier: MIT
#include "kernels/nn/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "core/targets.h"
#include "kernels/nn/loss_rows.h"

namespace dragonn::kernels {
namespace {

/// Returns the loss of one row, and computes its gradient if there is room for one.
double row_loss(std::span<const float> logits, std::size_t label, double smoothing, std::span<float> gradient,
                double rows) {
  const detail::RowSums sums = detail::softmax_row_sums(logits.data(), logits.size());
  const double classes = static_cast<double>(logits.size());
  const double normalizer = std::log(sums.exponentials);
  const double distance = static_cast<double>(logits[label]) - sums.largest;
  const double loss = (1 - smoothing) * (normalizer - distance) + smoothing * (normalizer - sums.distances / classes);
  if (gradient.empty()) return loss;
  if (!std::isfinite(loss)) {  // the vector exponential turns NaN into 0: a run that has diverged must show it
    std::ranges::fill(gradient, std::numeric_limits<float>::quiet_NaN());
    return loss;
  }
  const double target = std::exp(distance - normalizer) - (1 - smoothing) - smoothing / classes;
  detail::softmax_row(logits.data(), logits.size(), sums.largest, static_cast<float>(1 / (sums.exponentials * rows)),
                      static_cast<float>(-smoothing / classes / rows), gradient.data());
  gradient[label] = static_cast<float>(target / rows);
  return loss;
}

/// Returns the number of rows that are not ignored. @throws DataError for a label out of range.
std::size_t count_labels(std::span<const std::int32_t> labels, std::size_t classes) {
  std::size_t count = 0;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == kIgnoredLabel) continue;
    if (labels[row] < 0 || static_cast<std::size_t>(labels[row]) >= classes)
      detail::refuse_label(labels[row], row, classes);
    ++count;
  }
  return count;
}

CrossEntropy on_cpu(TypedView<const float> logits, View<const std::int32_t> labels, std::size_t classes,
                    double smoothing, TypedView<float> gradient) {
  const std::span<const std::int32_t> all_labels = labels.host();
  CrossEntropy result;
  result.count = count_labels(all_labels, classes);
  for (std::size_t row = 0; row < all_labels.size(); ++row) {
    const auto row_logits = logits.host().subspan(row * classes, classes);
    const auto row_gradient = gradient.empty() ? std::span<float>() : gradient.host().subspan(row * classes, classes);
    if (all_labels[row] == kIgnoredLabel) {
      std::ranges::fill(row_gradient, 0.0f);
      continue;
    }
    const auto label = static_cast<std::size_t>(all_labels[row]);
    const auto prediction = std::ranges::max_element(row_logits) - row_logits.begin();
    result.correct += static_cast<std::size_t>(prediction) == label ? 1 : 0;
    result.loss_sum += row_loss(row_logits, label, smoothing, row_gradient, static_cast<double>(result.count));
  }
  return result;
}

}  // namespace

void detail::refuse_label(std::int32_t label, std::size_t row, std::size_t classes) {
  throw DataError(fmt::format("label {} of row {} of the batch: valid are 0 to {}", label, row, classes - 1));
}

constinit decltype(softmax_cross_entropy_rows) softmax_cross_entropy_rows("softmax_cross_entropy", on_cpu);
CrossEntropy softmax_cross_entropy(TypedView<const float> logits, View<const std::int32_t> labels, std::size_t classes,
                                   double smoothing, TypedView<float> gradient) {
  if (logits.size() != labels.size() * classes || (!gradient.empty() && gradient.size() != logits.size()))
    throw ShapeError(fmt::format("cross-entropy of {} logits, {} labels, {} classes and a gradient of {}",
                                 logits.size(), labels.size(), classes, gradient.size()));
  return softmax_cross_entropy_rows.at(logits.device())(logits, labels, classes, smoothing, gradient);
}

}  // namespace dragonn::kernels
