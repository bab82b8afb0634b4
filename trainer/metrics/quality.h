// SPDX-License-Identifier: MIT
/// Quality: the performance of a network on a split, in the metrics that are usual for its kind of data.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/shape.h"
#include "core/view.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "kernels/devices.h"
#include "layers/loss.h"

namespace dragonn::trainer {

/// A metric and its value: "accuracy", 0.93.
struct Quality {
  std::string name;
  double value = 0;
};

/// Returns whether the best evaluation is the one with the largest value of this metric, rather than the smallest.
bool larger_is_better(const std::string& name);
/// Returns the metric for a log: "accuracy 93.10 %", "perplexity 121.4".
std::string describe(const Quality& quality);
/// Returns its value alone: "93.10 %".
std::string describe_value(const Quality& quality);

/// The outputs of a network for a batch.
struct Outputs {
  View<const float> logits;  ///< [count, classes] or [count, steps, classes], on any device
  Shape shape;
  std::span<const std::int32_t> lengths;  ///< [count], valid time steps; empty: all are
};

/// Returns the labels of a sequence of logits by CTC's greedy rule: the largest of each time step, repeats once,
/// without blanks. @param logits [steps, classes].
std::vector<std::int32_t> greedy_labels(std::span<const float> logits, std::size_t classes);

/// Accumulates metrics over the batches of a split:
///   one class per sample    accuracy
///   one class per step      perplexity: e to the mean loss; of questions f1 and exact_match of the best answer among
///                           the samples of each
///   a set of classes        precision_at_1, _3, _5: share of a point's labels among its 1, 3, 5 largest logits
///   a sequence of classes   character_error_rate, word_error_rate of greedy_labels's text.
class QualitySums {
 public:
  explicit QualitySums(const data::Dataset& dataset) : dataset_(dataset) {}

  /// Returns whether the metrics need more than the loss: only then does add() read outputs.
  bool reads_outputs() const;
  void add(const Outputs& outputs, const data::Batch& batch, const layers::LossResult& loss);
  /// The sums, to be summed over the ranks.
  std::span<double> sums() {
    finish_question();
    return sums_;
  }

  /// Returns the mean loss over samples, or over the time steps that have a label.
  double loss() const { return sums_[0] / std::max(sums_[1], 1.0); }
  std::uint64_t count() const { return static_cast<std::uint64_t>(sums_[1]); }
  /// Returns the metrics. The first one decides which evaluation is best.
  std::vector<Quality> qualities() const;

 private:
  void add_precision(std::span<const float> logits, const data::Batch& batch);
  void add_texts(const Outputs& outputs, std::span<const float> logits, const data::Batch& batch);
  void add_answers(std::span<const float> logits, const data::Batch& batch);
  void finish_question();

  static constexpr std::array<std::size_t, 3> kPrecisionAt{1, 3, 5};

  const data::Dataset& dataset_;
  kernels::HostMirror<float> logits_;
  // The sums are loss, count, and those of the kind of data.
  std::array<double, 6> sums_{};
  std::optional<std::size_t> question_;  ///< the one that the last sample belongs to
  data::SpanAnswer answer_;              ///< the best one so far
};

}  // namespace dragonn::trainer
