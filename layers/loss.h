// SPDX-License-Identifier: MIT
/// Loss: the comparison of a network's output with targets. LossPlan: the same for one shape of the output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/shape.h"
#include "core/targets.h"
#include "core/view.h"
#include "kernels/nn/losses.h"
#include "kernels/typed_view.h"

namespace dragonn::layers {

using LossResult = kernels::LossSums;

/// The arguments of one evaluation of a loss. Outputs and gradient are of one type of element; sums are double.
struct LossPass {
  kernels::TypedView<const float> outputs;
  Targets targets;
  std::span<const std::int32_t> lengths;  ///< [batch], valid time steps of the output; empty: all are
  double label_smoothing = 0;             ///< ignored by losses that have none
  kernels::TypedView<float> gradient;     ///< gradient of loss_sum / count, [outputs], overwritten; empty if not wanted
  std::size_t count = 0;  ///< of the whole batch, if this pass has some of its rows; 0: that of the pass
};

/// A loss for one shape of the output. Its memory grows with the first batches. @throws DataError for a label out of
/// range, naming sample and label; ShapeError if sizes do not fit.
using LossPlan = std::function<LossResult(const LossPass&)>;

/// The description of a loss.
struct Loss {
  std::string name;  ///< for messages: "the CTC loss"
  TargetKind targets = TargetKind::kClass;
  std::size_t rank = 2;  ///< axes of the output: [batch, classes], or with 3 [batch, steps, classes]
  /// Makes the plan. @param classes of the output's last axis; if `sums_rows`, the axis may have padding behind them.
  std::function<LossPlan(const Device& device, const Shape& output, std::size_t classes)> plan;
  /// The loss is a sum over the output's rows, with a label each: a pass may have any of them. It may write the
  /// gradient over the outputs.
  bool sums_rows = false;
};

/// Loss of [batch, classes] with one class per sample. Has label smoothing.
Loss softmax_cross_entropy_loss();
/// Loss of [batch, classes] with a set of classes per sample, ascending: the cross-entropy of each class's sigmoid,
/// summed over the classes. `correct` counts samples whose largest logit is one of theirs.
Loss multi_label_loss();
/// Loss of [batch, steps, classes] with a sequence of classes from 1 on per sample; 0 is the blank (losses.h).
Loss ctc_loss();
/// Loss of [batch, steps, classes] with one class per step: the mean over those not ignored. Has label smoothing.
Loss sequence_cross_entropy_loss();

/// Returns the rows of a chunk (LayerGraph::set_loss) for outputs of so many columns: a multiple of 8, whose logits
/// take 32 MiB at most, as far as there is one.
std::size_t loss_chunk_rows(std::int64_t columns);

}  // namespace dragonn::layers
