// SPDX-License-Identifier: MIT
/// The sparsifiers `sidco_e`, `sidco_gp` and `sidco_p`: a threshold from a fitted distribution, refined on the values
/// that exceed it. They differ in their fits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compress/sidco/sidco_fit.h"
#include "compress/sidco/sidco_stages.h"
#include "compress/sparsifier.h"
#include "kernels/gradient/exceedance.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {
namespace {

enum class SidcoDistribution { kExponential, kGamma, kPareto };

/// The fit to all magnitudes, and the one to those that exceed a threshold (exponential or Pareto).
struct SidcoFits {
  SidcoDistribution first = SidcoDistribution::kExponential;
  SidcoDistribution later = SidcoDistribution::kExponential;
};

struct Rules {
  SidcoFits fits;
  double first_ratio = 0.25;      ///< the share that the first of several stages keeps
  bool shift_to_minimum = false;  ///< exceedances are counted from the smallest one, not from the threshold
  GammaInverse gamma_inverse = GammaInverse::kClosed;
};

/// The moments of magnitudes, or of exceedances.
struct Statistics {
  double count = 0;
  double mean = 0;
  double variance = 0;  ///< divides by count - 1
};

Statistics statistics_of(std::size_t count, double sum, double sum_squares) {
  const auto n = static_cast<double>(count);
  const double mean = sum / n;
  const double variance = count < 2 ? 0 : std::max(0.0, (sum_squares - mean * sum) / (n - 1));
  return {.count = n, .mean = mean, .variance = variance};
}

/// Selects by a threshold from a fit to the magnitudes, or from several fits: each further stage fits the values that
/// exceed the threshold of the stage before.
class Sidco final : public Sparsifier {
 public:
  Sidco(const Rules& rules, const StageRules& stage_rules, std::size_t numel, const Device& device)
      : rules_(rules), search_(stage_rules), numel_(numel), pool_(device) {
    kernels::reserve_selection(pool_, numel);
  }

  kernels::PassRequest plan(const SelectContext& context) override {
    // At density 1 there is nothing to fit.
    if (context.density >= 1) return {.kind = kernels::PassRequest::Kind::kThreshold, .end = numel_};
    return {.kind = kernels::PassRequest::Kind::kMoments};
  }

  void select(const SelectContext& context, const kernels::PassResult& pass, View<const float> acc,
              SparseVector& selected) override {
    kernels::reserve_selection(selected, numel_);
    if (context.density >= 1) {
      threshold_ = 0;
      return kernels::copy_entries(pass.selected, selected);
    }
    const kernels::Moments moments = pass.non_finite ? moments_without_nan(acc) : pass.moments;
    if (!(moments.sum > 0)) return selected.clear();
    const std::int64_t stages = context.density < rules_.first_ratio ? search_.stages(context.density) : 1;
    const double first_ratio = stages > 1 ? rules_.first_ratio : context.density;
    threshold_ = static_cast<float>(first_threshold(acc, moments, first_ratio));
    if (stages > 1) {
      refine(acc, moments, stages, std::pow(context.density / first_ratio, 1.0 / static_cast<double>(stages - 1)));
    }
    select_final(acc, stages > 1, selected);
    // With a single stage the number of stages does not affect the count.
    if (context.density < rules_.first_ratio) {
      search_.observe(static_cast<double>(selected.size()) / static_cast<double>(context.k), context.density);
    }
  }

  float threshold() const override { return threshold_; }

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
    if (rules_.fits.first == SidcoDistribution::kGamma) {
      // The logarithm of 0 does not exist, so a little is added to values scaled to a norm of 1.
      constexpr double kOffset = 2.2e-16;
      const double norm = std::sqrt(moments.sum_squares);
      const double mean_log = kernels::sum_magnitude_logs(acc, 1 / norm, kOffset) / all.count + std::log(norm);
      return gamma_threshold(all.mean, mean_log, ratio, rules_.gamma_inverse);
    }
    return tail_threshold(rules_.fits.first, all, ratio);
  }

  static double tail_threshold(SidcoDistribution distribution, const Statistics& statistics, double ratio) {
    return distribution == SidcoDistribution::kPareto ? pareto_threshold(statistics.mean, statistics.variance, ratio)
                                                      : exponential_threshold(statistics.mean, ratio);
  }

  /// Returns the threshold of the next stage, from the values that exceed threshold_.
  float next_threshold(const kernels::Exceedances& above, double ratio) const {
    Statistics excess = statistics_of(above.count, above.sum, above.sum_squares);
    double origin = threshold_;
    if (rules_.shift_to_minimum) {
      excess.mean -= static_cast<double>(above.smallest) - origin;
      origin = above.smallest;
    }
    return static_cast<float>(origin + tail_threshold(rules_.fits.later, excess, ratio));
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
    // If nothing exceeds the first threshold (equal values), stages have nothing to work on, and nothing would ever be
    // sent.
    if (above.count == 0) threshold_ = std::min(first, moments.largest);
    for (std::int64_t stage = 2; above.count >= 2; ++stage) {
      threshold_ = next_threshold(above, ratio);
      if (stage == 2) second_step_ = (static_cast<double>(threshold_) - first) / mean;
      if (stage == stages) return;
      if (threshold_ < pool_from_) fill_pool(acc);
      above = kernels::exceedances(pool_.values.view(), threshold_);
    }
  }

  void fill_pool(View<const float> acc) {
    pool_from_ = threshold_;
    kernels::select_threshold(acc, pool_from_, pool_);
  }

  void select_final(View<const float> acc, bool pooled, SparseVector& selected) const {
    if (pooled && threshold_ >= pool_from_) return kernels::filter_threshold(pool_, threshold_, selected);
    kernels::select_threshold(acc, threshold_, selected);
  }

  /// The share of the last step's distance between the first two thresholds that is taken for sure.
  static constexpr double kGuessedShare = 0.9;

  Rules rules_;
  StageSearch search_;
  std::size_t numel_;
  float threshold_ = std::numeric_limits<float>::quiet_NaN();
  double second_step_ = std::numeric_limits<double>::infinity();  ///< between the first two thresholds, in means of acc
  SparseVector pool_;                                             ///< entries of acc that reach pool_from_
  float pool_from_ = 0;
};

SettingSpecs settings(const SidcoFits& fits) {
  SettingSpecs specs{
      {.name = "stages",
       .default_value = std::int64_t{1},
       .help = "initial number of stages; each further stage fits the entries above the previous threshold",
       .minimum = 1,
       .maximum = 64},
      {.name = "adapt",
       .default_value = std::string("hillclimb"),
       .help = "how the number of stages changes; hillclimb: it reverses when selected / k got worse; paper: one "
               "stage fewer above the band, one more below; fixed: never",
       .choices = {"hillclimb", "paper", "fixed"}},
      {.name = "window",
       .default_value = std::int64_t{5},
       .help = "steps between changes of the number of stages",
       .minimum = 1},
      {.name = "tolerance_high",
       .default_value = 0.2,
       .help = "the number of stages stays while the mean of selected / k is at most 1 + this",
       .minimum = 0},
      {.name = "tolerance_low",
       .default_value = 0.2,
       .help = "the number of stages stays while the mean of selected / k is at least 1 - this",
       .minimum = 0,
       .maximum = 1},
      {.name = "first_ratio",
       .default_value = 0.25,
       .help = "share of the elements that the first of several stages keeps",
       .minimum = 0,
       .maximum = 1,
       .exclusive_minimum = true},
      {.name = "shift",
       .default_value = std::string("prev"),
       .help = "origin of the exceedances; prev: the threshold that they exceed; min: the smallest of them",
       .choices = {"prev", "min"}}};
  if (fits.first == SidcoDistribution::kGamma) {
    specs.push_back({.name = "gamma_inverse",
                     .default_value = std::string("closed"),
                     .help = "closed: a bound on the gamma distribution's tail; exact: its inverse",
                     .choices = {"closed", "exact"}});
  }
  return specs;
}

Rules rules(const Settings& values, const SidcoFits& fits) {
  Rules rules{
      .fits = fits, .first_ratio = values.number("first_ratio"), .shift_to_minimum = values.text("shift") == "min"};
  if (fits.first == SidcoDistribution::kGamma && values.text("gamma_inverse") == "exact") {
    rules.gamma_inverse = GammaInverse::kExact;
  }
  return rules;
}

StageRules stage_rules(const Settings& values) {
  const std::string& adapt = values.text("adapt");
  return {.adaptation = adapt == "fixed"   ? StageAdaptation::kFixed
                        : adapt == "paper" ? StageAdaptation::kPaper
                                           : StageAdaptation::kHillclimb,
          .initial = values.integer("stages"),
          .window = values.integer("window"),
          .tolerance_high = values.number("tolerance_high"),
          .tolerance_low = values.number("tolerance_low")};
}

/// Returns the entry of a variant. Cost: a sweep for the moments, fused with the accumulation; one for the logarithms
/// if a gamma distribution is fitted; one for the values that exceed the first threshold, or for the selection if there
/// is one stage.
SparsifierEntry sidco_entry(const char* name, const char* summary, const SidcoFits& fits) {
  SparsifierEntry entry;
  entry.name = name;
  entry.summary = summary;
  entry.source = "arXiv:2101.10761 (SIDCo), algorithm 1, sections 2.3 and B.3";
  entry.settings = settings(fits);
  entry.exact = true;
  // Finding the number of stages takes up to four windows. Among many zeros the values are not the tail of the fit to
  // all, so that nothing controls the count.
  entry.band = kAnyCount;
  entry.band.settling_steps = 40;
  entry.resize = {OnResize::kReshard, "keeps its stages: rank r those of rank r modulo the old number of workers"};
  // Measured on MNIST (MLP), CIFAR-10 (ResNet-20), text (LSTM) and random images: the first fits, of one stage, give
  // 0.2 to 4.5. Later 0.6 to 1.4; 0.1 to 1.25 at density 0.001 on MNIST, where most gradients of the first layer are
  // zero.
  // Without the search for a number of stages nothing settles.
  entry.forecast = [](const Settings& values) {
    constexpr CountRange kFirst{0.1, 1, 5};
    if (values.text("adapt") != "hillclimb") return CountForecast{.settled = kFirst};
    return CountForecast{.settled = {0.05, 0.9, 1.6}, .first = kFirst, .first_steps = 40};
  };
  entry.make = [fits](const Settings& values, std::size_t numel, const Device& device) {
    return std::make_unique<Sidco>(rules(values, fits), stage_rules(values), numel, device);
  };
  return entry;
}

const Registration<SparsifierEntry> exponential{
    sidco_entry("sidco_e", "entries above a threshold from exponential fits in stages",
                {.first = SidcoDistribution::kExponential, .later = SidcoDistribution::kExponential})};
const Registration<SparsifierEntry> gamma{
    sidco_entry("sidco_gp", "entries above a threshold from a gamma fit, refined by generalized Pareto fits in stages",
                {.first = SidcoDistribution::kGamma, .later = SidcoDistribution::kPareto})};
const Registration<SparsifierEntry> pareto{
    sidco_entry("sidco_p", "entries above a threshold from generalized Pareto fits in stages",
                {.first = SidcoDistribution::kPareto, .later = SidcoDistribution::kPareto})};

}  // namespace
}  // namespace dragonn::compress
