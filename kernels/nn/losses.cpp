// SPDX-License-Identifier: MIT
#include "kernels/nn/losses.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "core/targets.h"
#include "kernels/nn/loss_rows.h"

namespace dragonn::kernels {
namespace {

struct RowLoss {
  double loss = 0;
  bool correct = false;
};

/// Sums the losses of rows: `row_loss(row)` is called for each, on threads.
template <class Body>
LossSums sum_rows(std::size_t rows, std::size_t classes, const Body& row_loss) {
  std::array<LossSums, kMaxPieces> parts{};
  const std::size_t pieces = detail::for_each_row(rows, classes, [&](std::size_t piece, std::size_t row) {
    const RowLoss own = row_loss(row);
    parts[piece].loss_sum += own.loss;
    parts[piece].correct += own.correct ? 1 : 0;
  });
  LossSums sums;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    sums.loss_sum += parts[piece].loss_sum;
    sums.correct += parts[piece].correct;
  }
  return sums;
}

/// Returns the loss of one row, and computes its gradient if there is room for one.
RowLoss row_loss(std::span<const float> logits, std::size_t label, double smoothing, std::span<float> gradient,
                 double rows) {
  // The gradient may take the place of the logits.
  const float largest = detail::largest_in_row(logits.data(), logits.size());
  const bool correct = detail::is_first_largest(logits.data(), label, largest);
  const double distance = static_cast<double>(logits[label]) - largest;
  const detail::RowSums sums = detail::softmax_row_sums(logits.data(), logits.size(), largest, gradient.data());
  const double classes = static_cast<double>(logits.size());
  const double normalizer = std::log(sums.exponentials);
  const double loss = (1 - smoothing) * (normalizer - distance) + smoothing * (normalizer - sums.distances / classes);
  if (gradient.empty()) return {loss, correct};
  if (!std::isfinite(loss)) {  // the vector exponential turns NaN into 0: a run that has diverged must show it
    std::ranges::fill(gradient, std::numeric_limits<float>::quiet_NaN());
    return {loss, correct};
  }
  const double target = std::exp(distance - normalizer) - (1 - smoothing) - smoothing / classes;
  detail::scale_row(gradient.data(), gradient.size(), static_cast<float>(1 / (sums.exponentials * rows)),
                    static_cast<float>(-smoothing / classes / rows));
  gradient[label] = static_cast<float>(target / rows);
  return {loss, correct};
}

std::size_t count_on_cpu(View<const std::int32_t> all_labels, std::size_t classes) {
  const std::span<const std::int32_t> labels = all_labels.host();
  std::size_t count = 0;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == kIgnoredLabel) continue;
    if (labels[row] < 0 || static_cast<std::size_t>(labels[row]) >= classes)
      detail::refuse_label(labels[row], row, classes);
    ++count;
  }
  return count;
}

LossSums on_cpu(TypedView<const float> logits, View<const std::int32_t> labels, const CrossEntropy& settings,
                TypedView<float> gradient) {
  const std::size_t classes = settings.classes, columns = settings.columns;
  const std::span<const std::int32_t> all_labels = labels.host();
  const std::span<const float> all_logits = logits.host();
  const std::size_t count = count_on_cpu(labels, classes);
  const auto divisor = static_cast<double>(settings.count == 0 ? count : settings.count);
  LossSums sums = sum_rows(all_labels.size(), columns, [&](std::size_t row) -> RowLoss {
    auto row_gradient = gradient.empty() ? std::span<float>() : gradient.host().subspan(row * columns, columns);
    if (all_labels[row] == kIgnoredLabel) {
      std::ranges::fill(row_gradient, 0.0f);
      return {};
    }
    if (!gradient.empty()) {
      std::ranges::fill(row_gradient.subspan(classes), 0.0f);
      row_gradient = row_gradient.first(classes);
    }
    return row_loss(all_logits.subspan(row * columns, classes), static_cast<std::size_t>(all_labels[row]),
                    settings.smoothing, row_gradient, divisor);
  });
  sums.count = count;
  return sums;
}

void check_labels(std::span<const std::int32_t> labels, std::size_t sample, std::size_t classes) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || static_cast<std::size_t>(labels[i]) >= classes)
      throw DataError(
          fmt::format("label {} of sample {} of the batch: valid are 0 to {}", labels[i], sample, classes - 1));
    if (i > 0 && labels[i] <= labels[i - 1])
      throw DataError(fmt::format("label {} of sample {} of the batch behind {}: labels must ascend", labels[i], sample,
                                  labels[i - 1]));
  }
}

LossSums on_cpu(TypedView<const float> logits, const Targets& targets, std::size_t classes, TypedView<float> gradient) {
  const std::size_t batch = targets.offsets.size() - 1;
  const float share = 1.0f / static_cast<float>(batch);
  const std::span<const float> all_logits = logits.host();
  LossSums sums = sum_rows(batch, classes, [&](std::size_t sample) -> RowLoss {
    const auto labels = labels_of(targets, sample);
    const float* row = all_logits.data() + sample * classes;
    float* slope = gradient.empty() ? nullptr : gradient.data() + sample * classes;
    const float largest = detail::largest_in_row(row, classes);
    double own = 0;
    bool correct = false;
    for (const std::int32_t label : labels) {
      own += row[label];
      correct = correct || detail::is_first_largest(row, static_cast<std::size_t>(label), largest);
    }
    const double loss = detail::logistic_row(row, classes, share, slope) - own;
    if (slope == nullptr) return {loss, correct};
    for (const std::int32_t label : labels) slope[label] -= share;
    if (!std::isfinite(loss)) std::fill_n(slope, classes, std::numeric_limits<float>::quiet_NaN());
    return {loss, correct};
  });
  sums.count = batch;
  return sums;
}

}  // namespace

void detail::refuse_label(std::int32_t label, std::size_t row, std::size_t classes) {
  throw DataError(fmt::format("label {} of row {} of the batch: valid are 0 to {}", label, row, classes - 1));
}

constinit decltype(softmax_cross_entropy_rows) softmax_cross_entropy_rows("softmax_cross_entropy", on_cpu);
LossSums softmax_cross_entropy(TypedView<const float> logits, View<const std::int32_t> labels,
                               const CrossEntropy& settings, TypedView<float> gradient) {
  const CrossEntropy resolved = settings.resolved();
  if (logits.size() != labels.size() * resolved.columns || resolved.columns < resolved.classes ||
      (!gradient.empty() && gradient.size() != logits.size()))
    throw ShapeError(fmt::format("cross-entropy of {} logits, {} labels, {} classes and a gradient of {}",
                                 logits.size(), labels.size(), resolved.classes, gradient.size()));
  return softmax_cross_entropy_rows.at(logits.device())(logits, labels, resolved, gradient);
}
constinit decltype(count_labels) count_labels("count_labels", count_on_cpu);

constinit decltype(multi_label) multi_label(
    "multi_label", on_cpu, [](auto logits, const Targets& targets, std::size_t classes, auto gradient) {
      const std::size_t batch = logits.size() / classes;
      if (logits.size() != batch * classes || (!gradient.empty() && gradient.size() != logits.size()))
        throw ShapeError(fmt::format("multi-label loss of {} logits, {} classes and a gradient of {}", logits.size(),
                                     classes, gradient.size()));
      check_offsets(targets, batch);
      for (std::size_t sample = 0; sample < batch; ++sample) check_labels(labels_of(targets, sample), sample, classes);
      return true;
    });

}  // namespace dragonn::kernels
