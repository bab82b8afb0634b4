// SPDX-License-Identifier: MIT
/// Targets: the labels that the outputs of a batch are compared with.
#pragma once

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
void check_offsets(const Targets& targets, std::size_t batch);
/// Those of one sample, of a batch in host memory whose samples have lists.
std::span<const std::int32_t> labels_of(const Targets& targets, std::size_t sample);

}  // namespace dragonn
