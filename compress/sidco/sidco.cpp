// SPDX-License-Identifier: MIT
/// The sparsifiers `sidco_e`, `sidco_gp` and `sidco_p`: a threshold from a fit, refined on the values that exceed it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compress/sidco/sidco_fit.h"
#include "compress/sidco/sidco_stages.h"
#include "compress/sparsifier.h"
#include "kernels/gradient/exceedance.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {

std::int64_t max_stages(double density) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(-std::log2(density))));
}

std::int64_t StageSearch::stages(double density) const {
  return rules_.adaptation == StageAdaptation::kFixed ? stages_ : std::min(stages_, max_stages(density));
}

void StageSearch::observe(double ratio, double density) {
  if (rules_.adaptation == StageAdaptation::kFixed) return;
  sum_ += ratio;
  if (++count_ < rules_.window) return;
  const double mean = sum_ / static_cast<double>(count_);
  sum_ = 0;
  count_ = 0;
  stages_ = stages(density);
  const std::int64_t max = max_stages(density);
  if (rules_.adaptation == StageAdaptation::kHillclimb)
    climb(mean, max);
  else if (!in_band(mean))
    stages_ = std::clamp<std::int64_t>(stages_ + (mean > 1 ? -1 : 1), 1, max);
}

bool StageSearch::in_band(double mean) const {
  return mean >= 1 - rules_.tolerance_low && mean <= 1 + rules_.tolerance_high;
}

void StageSearch::climb(double mean, std::int64_t max) {
  constexpr std::int64_t kTurnsBeforeHold = 2, kWindowsHeld = 20;
  if (windows_held_ > 0) {
    if (++windows_held_ <= kWindowsHeld) return;
    forget_errors();
    windows_held_ = 0;
    moved_ = false;
    first_direction_ = -first_direction_;
    direction_ = first_direction_;
  }
  if (in_band(mean)) return forget_errors();
  const double error = std::fabs(mean - 1);
  if (best_stages_ == 0 || error < best_error_) {
    best_stages_ = stages_;
    best_error_ = error;
  }
  // At an unchanged M two windows differ by noise only.
  if (moved_ && error > last_error_) {
    direction_ = -direction_;
    if (++turns_ == kTurnsBeforeHold) {
      stages_ = best_stages_;
      windows_held_ = 1;
      return;
    }
  }
  const std::int64_t wanted = stages_ + direction_ * (mean > 1 ? -1 : 1);
  const std::int64_t next = std::clamp<std::int64_t>(wanted, 1, max);
  if (next != wanted) direction_ = -direction_;
  moved_ = next != stages_;
  last_error_ = error;
  stages_ = next;
}

void StageSearch::forget_errors() {
  turns_ = 0;
  best_stages_ = 0;
}

template <class Self, class Visit>
void StageSearch::for_members(Self& self, const Visit& visit) {
  visit("stages", self.stages_);
  visit("sum", self.sum_);
  visit("count", self.count_);
  visit("direction", self.direction_);
  visit("first_direction", self.first_direction_);
  visit("moved", self.moved_);
  visit("last_error", self.last_error_);
  visit("turns", self.turns_);
  visit("best_stages", self.best_stages_);
  visit("best_error", self.best_error_);
  visit("windows_held", self.windows_held_);
}

void StageSearch::save(Archive& archive, const std::string& prefix) const {
  for_members(*this, [&](const char* name, auto value) { archive.put(prefix + name, value); });
}

void StageSearch::load(const Archive& archive, const std::string& prefix) {
  for_members(*this, [&]<class T>(const char* name, T& value) { value = archive.get<T>(prefix + name); });
}

namespace {

enum class SidcoDistribution { kExponential, kGamma, kPareto };

/// The fit to all magnitudes, and the one to those that exceed a threshold (exponential or Pareto).
struct SidcoFits {
  SidcoDistribution first = SidcoDistribution::kExponential;
  SidcoDistribution later = SidcoDistribution::kExponential;
};

/// The moments of magnitudes, or of exceedances.
struct Statistics {
  double count = 0, mean = 0;
  double variance = 0;  ///< divides by count - 1
};

Statistics statistics_of(std::size_t count, double sum, double sum_squares) {
  const auto n = static_cast<double>(count);
  const double mean = sum / n;
  const double variance = count < 2 ? 0 : std::max(0.0, (sum_squares - mean * sum) / (n - 1));
  return {.count = n, .mean = mean, .variance = variance};
}

/// Selects by a threshold from a fit to the magnitudes; each further stage fits the values that exceed the last one's.
class Sidco final : public Sparsifier {
 public:
  Sidco(const SidcoFits& fits, const Settings& settings, std::size_t numel, const Device& device)
      : fits_(fits),
        first_ratio_(settings.number("first_ratio")),
        shift_to_minimum_(settings.text("shift") == "min"),
        search_({.adaptation = choice_of<StageAdaptation>("adapt", settings.text("adapt")),
                 .initial = settings.integer("stages"),
                 .window = settings.integer("window"),
                 .tolerance_high = settings.number("tolerance_high"),
                 .tolerance_low = settings.number("tolerance_low")}),
        numel_(numel),
        pool_(device) {
    if (fits.first == SidcoDistribution::kGamma && settings.text("gamma_inverse") == "exact")
      gamma_inverse_ = GammaInverse::kExact;
    kernels::reserve_selection(pool_, numel);
  }

  kernels::PassRequest plan(const SelectContext& context) override {
    // At density 1 there is nothing to fit.
    if (context.density >= 1) return {.kind = kernels::PassRequest::Kind::kThreshold, .end = numel_};
    return {.kind = kernels::PassRequest::Kind::kMoments};
  }

  void select(const SelectContext& context, kernels::PassResult& pass, View<const float> acc,
              SparseVector& selected) override {
    kernels::reserve_selection(selected, numel_);
    if (context.density >= 1) {
      threshold_ = 0;
      return std::swap(pass.selected, selected);
    }
    const kernels::Moments moments = pass.non_finite ? moments_without_nan(acc) : pass.moments;
    if (!(moments.sum > 0)) return selected.clear();
    const std::int64_t stages = context.density < first_ratio_ ? search_.stages(context.density) : 1;
    const double first_ratio = stages > 1 ? first_ratio_ : context.density;
    threshold_ = static_cast<float>(first_threshold(acc, moments, first_ratio));
    if (stages > 1)
      refine(acc, moments, stages, std::pow(context.density / first_ratio, 1.0 / static_cast<double>(stages - 1)));
    if (stages > 1 && threshold_ >= pool_from_)
      kernels::filter_threshold(pool_, threshold_, selected);
    else
      kernels::select_threshold(acc, threshold_, selected);
    // With a single stage the number of stages does not affect the count.
    if (context.density < first_ratio_)
      search_.observe(static_cast<double>(selected.size()) / static_cast<double>(context.k), context.density);
  }

  void save(Archive& archive, const std::string& prefix) const override {
    search_.save(archive, prefix);
    archive.put(prefix + "second_step", second_step_);
  }
  void load(const Archive& archive, const std::string& prefix) override {
    search_.load(archive, prefix);
    second_step_ = archive.get<double>(prefix + "second_step");
  }

 private:
  /// Returns the moments without NaN, which the pass has reported: its sums are NaN, too.
  static kernels::Moments moments_without_nan(View<const float> acc) {
    const kernels::Exceedances positive = kernels::exceedances(acc, 0);
    return {
        .sum = positive.sum, .sum_squares = positive.sum_squares, .largest = std::numeric_limits<float>::infinity()};
  }

  double first_threshold(View<const float> acc, const kernels::Moments& moments, double ratio) const {
    const Statistics all = statistics_of(acc.size(), moments.sum, moments.sum_squares);
    if (fits_.first == SidcoDistribution::kGamma) {
      // The logarithm of 0 does not exist, so a little is added to values scaled to a norm of 1.
      constexpr double kOffset = 2.2e-16;
      const double norm = std::sqrt(moments.sum_squares);
      const double mean_log = kernels::sum_magnitude_logs(acc, 1 / norm, kOffset) / all.count + std::log(norm);
      return gamma_threshold(all.mean, mean_log, ratio, gamma_inverse_);
    }
    return tail_threshold(fits_.first, all, ratio);
  }

  static double tail_threshold(SidcoDistribution distribution, const Statistics& statistics, double ratio) {
    return distribution == SidcoDistribution::kPareto ? pareto_threshold(statistics.mean, statistics.variance, ratio)
                                                      : exponential_threshold(statistics.mean, ratio);
  }

  /// Returns the threshold of the next stage, from the values that exceed threshold_.
  float next_threshold(const kernels::Exceedances& above, double ratio) const {
    Statistics excess = statistics_of(above.count, above.sum, above.sum_squares);
    double origin = threshold_;
    if (shift_to_minimum_) {
      excess.mean -= static_cast<double>(above.smallest) - origin;
      origin = above.smallest;
    }
    return static_cast<float>(origin + tail_threshold(fits_.later, excess, ratio));
  }

  /// Runs stages 2 to `stages`, each of which keeps `ratio` of the entries of the one before. Moves threshold_.
  ///
  /// The first of them reads all of acc, later ones a pool of the entries that can still be selected. The pool is known
  /// only after the first, so it is guessed from the end of the last step's, and filled in the same sweep.
  void refine(View<const float> acc, const kernels::Moments& moments, std::int64_t stages, double ratio) {
    const double mean = moments.sum / static_cast<double>(acc.size());
    const float first = threshold_;
    pool_from_ = static_cast<float>(first + kGuessedShare * second_step_ * mean);
    kernels::Exceedances above = kernels::exceedances_and_entries(acc, first, pool_from_, pool_);
    // If nothing exceeds the first threshold (equal values), stages have nothing to fit: nothing would ever be sent.
    if (above.count == 0) threshold_ = std::min(first, moments.largest);
    for (std::int64_t stage = 2; above.count >= 2; ++stage) {
      threshold_ = next_threshold(above, ratio);
      if (stage == 2) second_step_ = (static_cast<double>(threshold_) - first) / mean;
      if (stage == stages) return;
      if (threshold_ < pool_from_) {
        pool_from_ = threshold_;
        kernels::select_threshold(acc, pool_from_, pool_);
      }
      above = kernels::exceedances(pool_.values.view(), threshold_);
    }
  }

  /// The share of the last step's distance between the first two thresholds that is taken for sure.
  static constexpr double kGuessedShare = 0.9;

  SidcoFits fits_;
  double first_ratio_;     ///< the share that the first of several stages keeps
  bool shift_to_minimum_;  ///< exceedances are counted from the smallest one, not from the threshold
  GammaInverse gamma_inverse_ = GammaInverse::kClosed;
  StageSearch search_;
  std::size_t numel_;
  double second_step_ = std::numeric_limits<double>::infinity();  ///< between the first two thresholds, in means of acc
  SparseVector pool_;                                             ///< entries of acc that reach pool_from_
  float pool_from_ = 0;
};

/// Returns the entry of a variant. Cost: a sweep for the moments, fused with the accumulation; one for the logarithms
/// of a gamma fit; one for the values that exceed the first threshold, or for the selection of a single stage.
SparsifierEntry sidco_entry(const char* name, const char* summary, const SidcoFits& fits) {
  SparsifierEntry entry;
  entry.name = name;
  entry.summary = summary;
  entry.source = "arXiv:2101.10761 (SIDCo), algorithm 1, sections 2.3 and B.3";
  entry.settings = {
      SettingSpec::integer("stages", 1,
                           "initial number of stages; each further stage fits the entries above the previous threshold",
                           1, 64),
      SettingSpec::text("adapt", "hillclimb",
                        "how the number of stages changes; hillclimb: it reverses when selected / k got worse; paper: "
                        "one stage fewer above the band, one more below; fixed: never",
                        choice_names<StageAdaptation>()),
      SettingSpec::integer("window", 5, "steps between changes of the number of stages", 1),
      SettingSpec::number("tolerance_high", 0.2,
                          "the number of stages stays while the mean of selected / k is at most 1 + this", 0),
      SettingSpec::number("tolerance_low", 0.2,
                          "the number of stages stays while the mean of selected / k is at least 1 - this", 0, 1),
      SettingSpec::number("first_ratio", 0.25, "share of the elements that the first of several stages keeps", 0, 1)
          .above_minimum(),
      SettingSpec::text("shift", "prev",
                        "origin of the exceedances; prev: the threshold that they exceed; min: the smallest of them",
                        {"prev", "min"})};
  if (fits.first == SidcoDistribution::kGamma)
    entry.settings.push_back(SettingSpec::text("gamma_inverse", "closed",
                                               "closed: a bound on the gamma distribution's tail; exact: its inverse",
                                               {"closed", "exact"}));
  entry.exact = true;
  // Finding the number of stages takes up to four windows. Among many zeros nothing controls the count.
  entry.band = kAnyCount;
  entry.band.settling_steps = 40;
  entry.resize = {OnResize::kReshard, "keeps its stages: rank r those of rank r modulo the old number of workers"};
  // Measured on MNIST (MLP), CIFAR-10 (ResNet-20), text (LSTM) and random images: first fits 0.2 to 4.5, later 0.6 to
  // 1.4; at density 0.001 on MNIST, with many zeros, 0.1 to 1.25. Without the search for stages nothing settles.
  entry.forecast = [](const Settings& values) {
    constexpr CountRange kFirst{0.1, 1, 5};
    if (values.text("adapt") != "hillclimb") return CountForecast{.settled = kFirst};
    return CountForecast{.settled = {0.05, 0.9, 1.6}, .first = kFirst, .first_steps = 40};
  };
  entry.make = [fits](const Settings& values, std::size_t numel, const Device& device) {
    return std::make_unique<Sidco>(fits, values, numel, device);
  };
  return entry;
}

const Registration<SparsifierEntry> exponential{
    sidco_entry("sidco_e", "entries above a threshold from exponential fits in stages", {})};
const Registration<SparsifierEntry> gamma{
    sidco_entry("sidco_gp", "entries above a threshold from a gamma fit, refined by generalized Pareto fits in stages",
                {.first = SidcoDistribution::kGamma, .later = SidcoDistribution::kPareto})};
const Registration<SparsifierEntry> pareto{
    sidco_entry("sidco_p", "entries above a threshold from generalized Pareto fits in stages",
                {.first = SidcoDistribution::kPareto, .later = SidcoDistribution::kPareto})};

}  // namespace
}  // namespace dragonn::compress
