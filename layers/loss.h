// SPDX-License-Identifier: MIT
/// Loss: how a network's output is compared with targets; LossPlan: the same for one shape of the output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/shape.h"
#include "core/targets.h"
#include "core/view.h"

namespace dragonn::layers {

/// Sums over the samples of one batch, or over the labelled time steps where every step has a target.
struct LossResult {
  double loss_sum = 0;      ///< of the samples' (steps') losses
  std::size_t correct = 0;  ///< those whose largest logit is a label's; 0 where targets are not aligned with outputs
  std::size_t count = 0;    ///< samples, or steps that are not ignored
};

/// What one evaluation of a loss is handed.
struct LossPass {
  View<const float> outputs;
  Targets targets;
  std::span<const std::int32_t> lengths;  ///< [batch], valid time steps of the output; empty: all are
  double label_smoothing = 0;             ///< ignored by losses without
  View<float> gradient;                   ///< of loss_sum / count, [outputs], overwritten; empty if not wanted
};

/// Made once per shape. What it needs of memory grows with the first batches.
class LossPlan {
 public:
  virtual ~LossPlan() = default;
  /// @throws DataError for a label out of range, naming sample and label; ShapeError if sizes do not fit.
  virtual LossResult run(const LossPass& pass) = 0;
};

/// Immutable.
class Loss {
 public:
  virtual ~Loss() = default;
  virtual std::string kind() const = 0;  ///< "softmax cross-entropy", for messages
  virtual TargetKind targets() const = 0;
  /// @param output with the batch. @throws ShapeError if the loss takes no such output.
  virtual void check(const Shape& output) const = 0;
  virtual std::unique_ptr<LossPlan> plan(const Device& device, const Shape& output) const = 0;
};

/// Of [batch, classes] with one class per sample. With label smoothing.
std::unique_ptr<Loss> softmax_cross_entropy_loss();
/// Of [batch, classes] with a set of classes per sample, ascending: for every class the cross-entropy of its sigmoid,
/// summed over the classes. `correct` counts samples whose largest logit is one of theirs.
std::unique_ptr<Loss> multi_label_loss();
/// Of [batch, steps, classes] with a sequence of classes 1 and up per sample; class 0 is the blank. See
/// kernels/nn/ctc.h.
std::unique_ptr<Loss> ctc_loss();
/// Of [batch, steps, classes] with one class per step. The mean is over the steps of the batch that are not ignored.
std::unique_ptr<Loss> sequence_cross_entropy_loss();

}  // namespace dragonn::layers
