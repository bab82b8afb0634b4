// SPDX-License-Identifier: MIT
#include "kernels/nn/multi_label.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/nn/loss_rows.h"

namespace dragonn::kernels {
namespace {

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

MultiLabelResult on_cpu(TypedView<const float> logits, const Targets& targets, std::size_t classes,
                        TypedView<float> gradient) {
  const std::size_t batch = targets.offsets.size() - 1;
  const float share = 1.0f / static_cast<float>(batch);
  const std::span<const float> all_logits = logits.host();
  std::array<MultiLabelResult, kMostPieces> parts{};
  const std::size_t pieces = detail::for_each_row(batch, classes, [&](std::size_t piece, std::size_t sample) {
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
    parts[piece].loss_sum += loss;
    parts[piece].correct += correct ? 1 : 0;
    if (slope == nullptr) return;
    for (const std::int32_t label : labels) slope[label] -= share;
    if (!std::isfinite(loss)) std::fill_n(slope, classes, std::numeric_limits<float>::quiet_NaN());
  });
  MultiLabelResult result;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    result.loss_sum += parts[piece].loss_sum;
    result.correct += parts[piece].correct;
  }
  return result;
}

}  // namespace

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
