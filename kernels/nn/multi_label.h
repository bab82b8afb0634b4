// SPDX-License-Identifier: MIT
/// Multi-label loss: a logistic regression for every class.
#pragma once

#include <cstddef>

#include "core/targets.h"
#include "core/view.h"
#include "kernels/operation.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

struct MultiLabelResult {
  double loss_sum = 0;      ///< over samples and classes
  std::size_t correct = 0;  ///< samples whose largest logit (the first of equal ones) is of one of their classes
};

/// Returns the loss of a batch. A sample's is the sum over its classes of log(1 + exp(-x)) and over all others of log(1
/// + exp(x)).
/// @param logits [batch, classes].  @param targets a list per sample of ascending classes, in host memory; a list may
/// be empty.
/// @param gradient [batch, classes], of the mean over the batch; empty if not wanted, may be `logits`.
/// @throws DataError for a label out of range or order, naming the sample; DeviceError if there is no row for the
/// device.
extern Operation<MultiLabelResult(TypedView<const float> logits, const Targets& targets, std::size_t classes,
                                  TypedView<float> gradient)>
    multi_label;

}  // namespace dragonn::kernels
