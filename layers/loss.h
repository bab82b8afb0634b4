// SPDX-License-Identifier: MIT
/// Loss: the comparison of a network's output with targets. LossPlan: the same for one shape of the output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/shape.h"
#include "core/targets.h"
#include "core/view.h"
#include "kernels/typed_view.h"

namespace dragonn::layers {

/// The sums over the samples of one batch, or over its labelled time steps if every step has a target.
struct LossResult {
  double loss_sum = 0;      ///< sum of the samples' (steps') losses
  std::size_t correct = 0;  ///< those whose largest logit is a label's; 0 if targets are not aligned with outputs
  std::size_t count = 0;    ///< samples, or steps that are not ignored
};

/// The arguments of one evaluation of a loss. Outputs and gradient are of one type of element; sums are double.
struct LossPass {
  kernels::TypedView<const float> outputs;
  Targets targets;
  std::span<const std::int32_t> lengths;  ///< [batch], valid time steps of the output; empty: all are
  double label_smoothing = 0;             ///< ignored by losses that have none
  kernels::TypedView<float> gradient;     ///< gradient of loss_sum / count, [outputs], overwritten; empty if not wanted
};

/// A loss for one shape of the output. Its memory grows with the first batches.
/// Evaluates the loss. @throws DataError for a label out of range, naming sample and label; ShapeError if sizes do
/// not fit.
using LossPlan = std::function<LossResult(const LossPass&)>;

/// The description of a loss; immutable.
class Loss {
 public:
  virtual ~Loss() = default;
  virtual std::string kind() const = 0;  ///< "softmax cross-entropy", for messages
  virtual TargetKind targets() const = 0;
  /// Checks a shape. @param output with the batch. @throws ShapeError if the loss takes no such output.
  virtual void check(const Shape& output) const = 0;
  virtual LossPlan plan(const Device& device, const Shape& output) const = 0;
};

/// Loss of [batch, classes] with one class per sample. Has label smoothing.
std::unique_ptr<Loss> softmax_cross_entropy_loss();
/// Loss of [batch, classes] with a set of classes per sample, ascending: the cross-entropy of each class's sigmoid,
/// summed over the classes. `correct` counts samples whose largest logit is one of theirs.
std::unique_ptr<Loss> multi_label_loss();
/// Loss of [batch, steps, classes] with a sequence of classes 1 and up per sample; class 0 is the blank. See
/// kernels/nn/losses.h.
std::unique_ptr<Loss> ctc_loss();
/// Loss of [batch, steps, classes] with one class per step. The mean is over the steps of the batch that are not
/// ignored.
std::unique_ptr<Loss> sequence_cross_entropy_loss();

}  // namespace dragonn::layers
