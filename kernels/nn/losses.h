// SPDX-License-Identifier: MIT
/// Losses and their gradients: softmax cross-entropy, a logistic regression for every class, and CTC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/targets.h"
#include "core/view.h"
#include "kernels/operation.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

/// The sums over the samples of a batch, or over its labelled time steps if every step has a target.
struct LossSums {
  double loss_sum = 0;      ///< in float64
  std::size_t correct = 0;  ///< those whose largest logit (the first of equal ones) is a label's; 0 for CTC
  std::size_t count = 0;    ///< samples, or steps that are not ignored
};

/// The settings of a cross-entropy.
struct CrossEntropy {
  std::size_t classes = 2;
  double smoothing = 0;
  /// The columns of a row. Those behind the classes are padding: the softmax leaves them out, and their gradient is 0.
  /// 0: as many as classes.
  std::size_t columns = 0;
  /// The rows over which the gradient's mean is taken, if these rows are a part of a batch. 0: those of this call.
  std::size_t count = 0;

  /// Returns the same with the number of columns filled in.
  CrossEntropy resolved() const { return {classes, smoothing, columns == 0 ? classes : columns, count}; }
};

/// Computes the loss. Row i has -sum_c q_c log softmax(logits_i)_c with q = (1 - smoothing) at the label + smoothing /
/// classes everywhere. Rows with the label kIgnoredLabel have neither loss nor gradient. Exponentials are float32,
/// their sums float64 in an order that does not depend on the vector width.
/// @param logits [rows, columns].  @param labels [rows] in [0, classes), or kIgnoredLabel.
/// @param gradient [rows, columns], of the mean over the rows that count: (softmax - q) / count. Empty if not wanted;
/// may be `logits`.
/// @throws DataError for a label out of range, naming the row.
LossSums softmax_cross_entropy(TypedView<const float> logits, View<const std::int32_t> labels,
                               const CrossEntropy& settings, TypedView<float> gradient);

extern Operation<LossSums(TypedView<const float>, View<const std::int32_t>, const CrossEntropy&, TypedView<float>)>
    softmax_cross_entropy_rows;

/// Returns the number of labels that are not kIgnoredLabel. @throws DataError for a label out of range, naming its row.
extern Operation<std::size_t(View<const std::int32_t> labels, std::size_t classes)> count_labels;

namespace detail {
/// Refuses a label that is no class. @throws DataError that names it.
[[noreturn]] void refuse_label(std::int32_t label, std::size_t row, std::size_t classes);
/// Returns the number of labels in the longest sequence.
std::size_t longest_sequence(const Targets& targets);
}  // namespace detail

/// Returns the loss of a batch. A sample's is the sum over its classes of log(1 + exp(-x)) and over all others of log(1
/// + exp(x)).
/// @param logits [batch, classes].  @param targets a list per sample of ascending classes, in host memory; a list may
/// be empty.
/// @param gradient [batch, classes], of the mean over the batch; empty if not wanted, may be `logits`.
/// @throws DataError for a label out of range or order, naming the sample.
extern Operation<LossSums(TypedView<const float> logits, const Targets& targets, std::size_t classes,
                          TypedView<float> gradient)>
    multi_label;

/// The class of a step without a label.
inline constexpr std::int32_t kCtcBlank = 0;

struct CtcArguments {
  std::size_t batch = 1, steps = 1, classes = 2;
  TypedView<const float> logits;          ///< [batch, steps, classes]
  Targets targets;                        ///< a sequence per sample, of labels in [1, classes), in host memory
  std::span<const std::int32_t> lengths;  ///< [batch], valid steps; empty: all are
  TypedView<float> gradient;              ///< [batch, steps, classes], of the mean over the batch; empty if not wanted
  View<double> scratch;                   ///< ctc_scratch() values, on the device of the logits

  const Device& device() const { return logits.device(); }
};

/// Returns the doubles of scratch memory that a batch needs: those of one sample on the CPU, which takes them one by
/// one, those of all on other devices.
std::size_t ctc_scratch(const Device& device, std::size_t steps, const Targets& targets);

/// Returns the sum over the batch of -log p(labels | logits), by the forward-backward recursion over the labels with
/// blanks between them, in log space and double. O(steps * labels) per sample.
/// @throws DataError naming the sample for a label out of range, or for more labels (and blanks between equal
/// neighbours) than steps: no alignment exists.
/// Source: Graves et al., ICML 2006, equations 6 to 16.
extern Operation<double(const CtcArguments& arguments)> ctc;

}  // namespace dragonn::kernels
