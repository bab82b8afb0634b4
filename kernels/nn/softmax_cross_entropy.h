// SPDX-License-Identifier: MIT
/// Softmax cross-entropy with label smoothing, and its gradient.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/view.h"
#include "kernels/operation.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

struct CrossEntropy {
  double loss_sum = 0;      ///< over the rows, accumulated in float64
  std::size_t correct = 0;  ///< rows whose largest logit (the first of equal ones) is the label's
  std::size_t count = 0;    ///< rows that are not ignored
};

/// Computes the loss. Row i has -sum_c q_c log softmax(logits_i)_c with q = (1 - smoothing) at the label + smoothing /
/// classes everywhere. Rows with the label kIgnoredLabel have neither loss nor gradient. Exponentials are float32,
/// their sums float64 in an order that does not depend on the vector width.
/// @param logits [rows, classes].  @param labels [rows] in [0, classes), or kIgnoredLabel.
/// @param gradient [rows, classes], of the mean over the rows that count: (softmax - q) / count. Empty if not wanted;
/// may be `logits`.
/// @throws DataError for a label out of range, naming the row; DeviceError if there is no row for the device.
CrossEntropy softmax_cross_entropy(TypedView<const float> logits, View<const std::int32_t> labels, std::size_t classes,
                                   double smoothing, TypedView<float> gradient);

extern Operation<CrossEntropy(TypedView<const float>, View<const std::int32_t>, std::size_t, double, TypedView<float>)>
    softmax_cross_entropy_rows;

namespace detail {
/// Refuses a label that is no class. @throws DataError that names it.
[[noreturn]] void refuse_label(std::int32_t label, std::size_t row, std::size_t classes);
}  // namespace detail

}  // namespace dragonn::kernels
