// SPDX-License-Identifier: MIT
/// Targets: the labels that the outputs of a batch are compared with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/view.h"

namespace dragonn {

/// The kind of labels that a data set provides and a loss takes.
enum class TargetKind {
  kClass,          ///< one class per sample: labels [batch]
  kClassPerStep,   ///< one class per time step: labels [batch, steps]; kIgnoredLabel does not count
  kClassSet,       ///< any number of classes per sample, each once: labels with offsets
  kClassSequence,  ///< a sequence of classes per sample, not aligned with the time steps: labels with offsets
};

/// The label of a time step without a target: padding, or a token that is not to be predicted.
inline constexpr std::int32_t kIgnoredLabel = -1;

/// The labels of one batch. If samples have lists of labels, those of sample i are offsets[i] to offsets[i + 1] - 1.
struct Targets {
  View<const std::int32_t> labels;
  View<const std::int32_t> offsets;  ///< [batch + 1], ascending from 0; empty if every sample has as many labels
};

/// Checks the offsets. @throws ShapeError unless they cut the labels into `batch` lists.
inline void check_offsets(const Targets& targets, std::size_t batch) {
  const auto offsets = targets.offsets.host();
  if (offsets.size() == batch + 1 && offsets[0] == 0 && std::ranges::is_sorted(offsets) &&
      static_cast<std::size_t>(offsets[batch]) == targets.labels.size())
    return;
  throw ShapeError(
      fmt::format("{} labels with {} offsets for {} samples: offsets must ascend from 0 to the number of "
                  "labels, one more than samples",
                  targets.labels.size(), offsets.size(), batch));
}
/// Returns the labels of one sample, of a batch in host memory whose samples have lists.
inline std::span<const std::int32_t> labels_of(const Targets& targets, std::size_t sample) {
  const auto begin = static_cast<std::size_t>(targets.offsets.host()[sample]);
  return targets.labels.host().subspan(begin, static_cast<std::size_t>(targets.offsets.host()[sample + 1]) - begin);
}

}  // namespace dragonn
