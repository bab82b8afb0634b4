// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/nn/loss_rows.h"
#include "kernels/nn/losses.h"

namespace dragonn::kernels {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double larger = std::max(a, b);
  return larger == kImpossible ? kImpossible : larger + std::log1p(std::exp(std::min(a, b) - larger));
}

std::size_t steps_of(const CtcArguments& arguments, std::size_t sample) {
  return arguments.lengths.empty() ? arguments.steps : static_cast<std::size_t>(arguments.lengths[sample]);
}

/// The alignment of one sample. Places are its labels with blanks before, between and behind: place 2i + 1 is label i.
class Alignment {
 public:
  Alignment(std::span<const std::int32_t> labels, std::size_t steps, std::size_t classes, const float* logits,
            View<double> scratch)
      : labels_(labels),
        steps_(steps),
        classes_(classes),
        places_(2 * labels.size() + 1),
        logits_(logits),
        normalizers_(scratch.data()),
        alpha_(normalizers_ + steps),
        beta_(alpha_ + steps * places_),
        next_beta_(beta_ + places_) {
    for (std::size_t t = 0; t < steps; ++t) {
      const float largest = detail::largest_in_row(row(t), classes);
      const detail::RowSums sums = detail::softmax_row_sums(row(t), classes, largest, nullptr);
      normalizers_[t] = largest + std::log(sums.exponentials);
      if (!std::isfinite(sums.distances)) normalizers_[t] = std::numeric_limits<double>::quiet_NaN();
    }
  }

  /// Fills alpha: alpha_[t, s] = log p(all beginnings that are at place s after step t).
  double log_likelihood() {
    if (steps_ == 0) return 0;  // of no labels: others do not fit
    for (std::size_t t = 0; t < steps_; ++t)
      for (std::size_t place = 0; place < places_; ++place) alpha(t)[place] = reach(t, place) + log_output(t, place);
    const double* last = alpha(steps_ - 1);
    return places_ == 1 ? last[0] : log_add(last[places_ - 1], last[places_ - 2]);
  }

  /// Computes gradient [steps, classes] = share * (softmax - probability that the step's place is of that class).
  void gradient(double log_likelihood, double share, float* gradient) {
    for (std::size_t t = steps_; t-- > 0;) {
      float* target = gradient + t * classes_;
      detail::exponential_row(row(t), classes_, static_cast<float>(normalizers_[t]), static_cast<float>(share), target);
      for (std::size_t place = 0; place < places_; ++place) {
        beta_[place] = leave(t, place);
        const double probability = std::exp(alpha(t)[place] + beta_[place] - log_likelihood);
        target[label(place)] -= static_cast<float>(share * probability);
      }
      for (std::size_t place = 0; place < places_; ++place) next_beta_[place] = beta_[place] + log_output(t, place);
    }
  }

 private:
  const float* row(std::size_t t) const { return logits_ + t * classes_; }
  double* alpha(std::size_t t) const { return alpha_ + t * places_; }
  std::size_t label(std::size_t place) const {
    return static_cast<std::size_t>(place % 2 == 0 ? kCtcBlank : labels_[place / 2]);
  }
  double log_output(std::size_t t, std::size_t place) const {
    return static_cast<double>(row(t)[label(place)]) - normalizers_[t];
  }
  /// Returns whether a step may lead from place - 2 to `place`: past a blank, to another label.
  bool skips_to(std::size_t place) const { return place % 2 == 1 && place >= 2 && label(place) != label(place - 2); }

  double reach(std::size_t t, std::size_t place) const {
    if (t == 0) return place < 2 ? 0.0 : kImpossible;
    const double* before = alpha(t - 1);
    double sum = before[place];
    if (place >= 1) sum = log_add(sum, before[place - 1]);
    return skips_to(place) ? log_add(sum, before[place - 2]) : sum;
  }

  /// Returns log p(all endings after step t | at `place` after step t).
  double leave(std::size_t t, std::size_t place) const {
    if (t + 1 == steps_) return place + 2 >= places_ ? 0.0 : kImpossible;
    double sum = next_beta_[place];
    if (place + 1 < places_) sum = log_add(sum, next_beta_[place + 1]);
    return place + 2 < places_ && skips_to(place + 2) ? log_add(sum, next_beta_[place + 2]) : sum;
  }

  std::span<const std::int32_t> labels_;
  std::size_t steps_, classes_, places_;
  const float* logits_;
  double* normalizers_;  // [steps]: log of the sum of exponentials
  double* alpha_;        // [steps, places]
  double* beta_;         // [places], of the current step
  double* next_beta_;    // [places], of the next one with its output
};

/// Checks the labels. @throws DataError unless they are in range and an alignment exists.
void check_labels(std::span<const std::int32_t> labels, std::size_t sample, std::size_t steps, std::size_t classes) {
  std::size_t needed = labels.size();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] <= kCtcBlank || static_cast<std::size_t>(labels[i]) >= classes)
      throw DataError(fmt::format("label {} at position {} of sample {} of the batch: valid are 1 to {}", labels[i], i,
                                  sample, classes - 1));
    if (i > 0 && labels[i] == labels[i - 1]) ++needed;
  }
  if (needed > steps)
    throw DataError(fmt::format("sample {} of the batch has {} time steps for {} labels: it needs at least {}", sample,
                                steps, labels.size(), needed));
}

double ctc_cpu(const CtcArguments& arguments) {
  const std::size_t size = arguments.steps * arguments.classes;
  const double share = 1.0 / static_cast<double>(arguments.batch);
  double sum = 0;
  for (std::size_t sample = 0; sample < arguments.batch; ++sample) {
    const auto labels = labels_of(arguments.targets, sample);
    const std::size_t steps = steps_of(arguments, sample);
    Alignment alignment(labels, steps, arguments.classes, arguments.logits.data() + sample * size, arguments.scratch);
    const double log_likelihood = alignment.log_likelihood();
    sum -= log_likelihood;
    if (arguments.gradient.empty()) continue;
    float* gradient = arguments.gradient.data() + sample * size;
    std::fill(gradient + steps * arguments.classes, gradient + size, 0.0f);
    if (std::isfinite(log_likelihood))
      alignment.gradient(log_likelihood, share, gradient);
    else
      std::fill_n(gradient, steps * arguments.classes, std::numeric_limits<float>::quiet_NaN());
  }
  return sum;
}

}  // namespace

constinit decltype(ctc) ctc("ctc", ctc_cpu, [](const CtcArguments& arguments) {
  const std::size_t values = arguments.batch * arguments.steps * arguments.classes;
  if (arguments.logits.size() != values || (!arguments.gradient.empty() && arguments.gradient.size() != values) ||
      (!arguments.lengths.empty() && arguments.lengths.size() != arguments.batch) ||
      arguments.scratch.size() < ctc_scratch(arguments.device(), arguments.steps, arguments.targets))
    throw ShapeError(fmt::format("CTC of {} samples, {} steps and {} classes with {} logits and {} lengths",
                                 arguments.batch, arguments.steps, arguments.classes, arguments.logits.size(),
                                 arguments.lengths.size()));
  check_offsets(arguments.targets, arguments.batch);
  for (std::size_t sample = 0; sample < arguments.batch; ++sample)
    check_labels(labels_of(arguments.targets, sample), sample, steps_of(arguments, sample), arguments.classes);
  return true;
});
std::size_t detail::longest_sequence(const Targets& targets) {
  std::size_t max = 0;
  for (std::size_t i = 0; i + 1 < targets.offsets.size(); ++i)
    max = std::max(max, static_cast<std::size_t>(targets.offsets.host()[i + 1] - targets.offsets.host()[i]));
  return max;
}

std::size_t ctc_scratch(const Device& device, std::size_t steps, const Targets& targets) {
  if (targets.offsets.empty()) return 0;
  const std::size_t places = 2 * detail::longest_sequence(targets) + 1;
  return (steps + (steps + 2) * places) * (device.is_cpu() ? 1 : targets.offsets.size() - 1);
}

}  // namespace dragonn::kernels
