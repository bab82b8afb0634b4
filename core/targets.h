// SPDX-License-Identifier: MIT
/// Targets: what the outputs of a batch are compared with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/view.h"

namespace dragonn {

/// What a data set gives and a loss takes.
enum class TargetKind {
  kClass,          ///< one class per sample: labels [batch]
  kClassPerStep,   ///< one class per time step: labels [batch, steps]; kIgnoredLabel does not count
  kClassSet,       ///< any number of classes per sample, each once: labels with offsets
  kClassSequence,  ///< a sequence of classes per sample, not aligned with the time steps: labels with offsets
};

/// The label of a time step without a target: padding, or a token that is not to be predicted.
inline constexpr std::int32_t kIgnoredLabel = -1;

/// Labels of one batch. Where samples have lists of them, those of sample i are offsets[i] to offsets[i + 1] - 1.
struct Targets {
  View<const std::int32_t> labels;
  View<const std::int32_t> offsets;  ///< [batch + 1], ascending from 0; empty where every sample has as many labels
};

/// @throws ShapeError unless the offsets cut the labels into `batch` lists.
void check_offsets(const Targets& targets, std::size_t batch);

}  // namespace dragonn
