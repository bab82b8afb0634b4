// SPDX-License-Identifier: MIT
#include "kernels/nn/multi_label.h"

#include <algorithm>
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
  MultiLabelResult result;
  for (std::size_t sample = 0; sample < batch; ++sample) {
    const auto labels = labels_of(targets, sample);
    const auto row = logits.host().subspan(sample * classes, classes);
    const auto prediction = static_cast<std::int32_t>(std::ranges::max_element(row) - row.begin());
    result.correct += std::ranges::binary_search(labels, prediction) ? 1 : 0;
    double own = 0;
    for (std::int32_t label : labels) own += row[static_cast<std::size_t>(label)];
    float* slope = gradient.empty() ? nullptr : gradient.data() + sample * classes;
    const double loss = detail::logistic_row(row.data(), classes, share, slope) - own;
    result.loss_sum += loss;
    if (slope == nullptr) continue;
    for (std::int32_t label : labels) slope[label] -= share;
    if (!std::isfinite(loss)) std::fill_n(slope, classes, std::numeric_limits<float>::quiet_NaN());
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
