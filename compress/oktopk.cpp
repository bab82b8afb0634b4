// SPDX-License-Identifier: MIT
#include <array>
#include <utility>

#include "compress/sparsifier.h"
#include "compress/threshold.h"
#include "core/choice.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {
namespace {

/// The rule that keeps a reused threshold near its target: the released code's constants, by experiment.
struct DriftRules {
  const char* name;
  double too_many_at_once;  ///< times k: above it the threshold rises at once, by kRaise, kMaxRaises times
  double few;               ///< times k: below it the next step's threshold is divided by `step`
  double many;              ///< times k: above it the next step's threshold is multiplied by `step`
  double step;
};
constexpr double kRaise = 1.03;
constexpr int kMaxRaises = 5;
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::array kDriftRules{DriftRules{"vgg", 4.0 / 3, 2.0 / 3, 5.0 / 4, 1.012},
                                 DriftRules{"lstm", 3.0 / 2, 3.0 / 4, 5.0 / 4, 1.012},
                                 DriftRules{"bert", kNever, 4.0 / 5, 5.0 / 4, 1.025}};

/// The rule of `drift = "off"`: the threshold stays between two recomputations.
constexpr DriftRules kNoDrift{"off", kNever, 0, kNever, 1};

/// Selects the entries above the exact k-th magnitude of an earlier step, by one pass: magnitudes change slowly.
class Oktopk final : public Sparsifier {
 public:
  Oktopk(const Settings& settings, std::size_t numel, const Device& device)
      : period_(static_cast<std::uint64_t>(settings.integer("period"))),
        drift_(settings.text("drift") == "off" ? kNoDrift : variant_of(kDriftRules, settings.text("drift_rules"))),
        numel_(numel),
        scratch_(device) {
    scratch_.reserve(numel);
  }

  kernels::PassRequest plan(const SelectContext& context) override {
    recomputes_ = is_stale(context);
    if (recomputes_) return bounded_request(numel_, context.k, context, "oktopk sample");
    return {.kind = kernels::PassRequest::Kind::kThreshold,
            .threshold = static_cast<float>(next_),
            .begin = 0,
            .end = numel_};
  }

  void select(const SelectContext& context, kernels::PassResult& pass, View<const float> acc,
              SparseVector& selected) override {
    kernels::reserve_selection(selected, numel_);
    if (recomputes_)
      recompute(context, pass, acc, selected);
    else
      reuse(context, pass, selected);
    // Zeros tell nothing about the threshold.
    if (!selected.empty() || kernels::magnitude_moments(acc).largest != 0) correct_drift(context.k, selected.size());
  }

  void save(Archive& archive, const std::string& prefix) const override {
    archive.put(prefix + "threshold", next_);
    archive.put(prefix + "k", static_cast<std::uint64_t>(k_));
    archive.put(prefix + "learning_rate", learning_rate_);
  }
  void load(const Archive& archive, const std::string& prefix) override {
    next_ = archive.get<double>(prefix + "threshold");
    k_ = archive.get<std::uint64_t>(prefix + "k");
    learning_rate_ = archive.get<double>(prefix + "learning_rate");
  }

 private:
  /// Returns whether the threshold must be computed: at first, every period, if there were fewer than k entries, and if
  /// k or the scale of acc has changed. A gliding learning rate (a cosine) is followed in steps.
  bool is_stale(const SelectContext& context) const {
    constexpr double kOtherScale = 1.1;
    if (next_ <= 0 || context.k != k_ || context.step % period_ == 0) return true;
    return context.learning_rate > kOtherScale * learning_rate_ || learning_rate_ > kOtherScale * context.learning_rate;
  }

  /// Selects all entries that reach the k-th magnitude: ties are kept, as they are by a reused threshold.
  void recompute(const SelectContext& context, const kernels::PassResult& pass, View<const float> acc,
                 SparseVector& selected) {
    k_ = context.k;
    learning_rate_ = context.learning_rate;
    kernels::select_largest(acc, k_, pass.selected, pass.threshold, scratch_, selected);
    threshold_ = kernels::smallest_kept(scratch_);
    const bool has_fewer = selected.size() < k_;
    // Below the bound of the pass the candidates are those of the kernel's own pass.
    kernels::filter_threshold(threshold_ < pass.threshold ? scratch_.candidates : pass.selected, threshold_, selected);
    if (has_fewer) threshold_ = 0;
    next_ = threshold_;
  }

  void reuse(const SelectContext& context, kernels::PassResult& pass, SparseVector& selected) {
    const double max = drift_.too_many_at_once * static_cast<double>(context.k);
    std::size_t count = pass.selected.size();
    for (int left = kMaxRaises; left > 0 && static_cast<double>(count) > max; --left) {
      next_ *= kRaise;
      count = kernels::count_threshold(pass.selected, static_cast<float>(next_));
    }
    threshold_ = static_cast<float>(next_);
    if (threshold_ == pass.threshold) return std::swap(pass.selected, selected);
    kernels::filter_threshold(pass.selected, threshold_, selected);
  }

  void correct_drift(std::size_t k, std::size_t count) {
    const auto target = static_cast<double>(k), seen = static_cast<double>(count);
    if (seen < drift_.few * target) next_ /= drift_.step;
    if (seen > drift_.many * target) next_ *= drift_.step;
  }

  std::uint64_t period_;
  const DriftRules& drift_;
  std::size_t numel_;
  kernels::MagnitudeScratch scratch_;
  bool recomputes_ = true;
  double next_ = 0;           // threshold of the coming step; 0: none
  std::size_t k_ = 0;         // at the last computation
  double learning_rate_ = 1;  // at the last computation
};

const Registration<SparsifierEntry> registration{[](SparsifierEntry& entry) {
  entry.name = "oktopk";
  entry.summary = "entries above the exact k-th largest magnitude, which is computed once per period and then reused";
  entry.source = "Ok-Topk (Li and Hoefler, PPoPP 2022), section 3.1.3; drift: Shigangli/Ok-Topk";
  entry.settings = {
      SettingSpec::integer("period", 32, "steps between computations of the threshold", 1),
      SettingSpec::text(
          "drift", "ref",
          "ref: correct a reused threshold whose count leaves its band, as the released code does; off: keep it",
          {"ref", "off"}),
      SettingSpec::text("drift_rules", "vgg", "experiment of the released code whose constants drift = \"ref\" uses",
                        names_in(kDriftRules))};
  // The limit is a period: within its band of counts a reused threshold is not corrected.
  entry.band = {.low = 2.0 / 3, .high = 5.0 / 4, .settling_steps = 32, .may_miss_ties = true};
  entry.resize = {OnResize::kRestart, "restarts: the threshold is computed anew from the residuals of the new ranks"};
  // Measured on the two MLPs of `dgc` alone, with correction: 0.67 to 1.45.
  entry.forecast = [](const Settings& values) {
    return CountForecast{.settled = values.text("drift") == "ref" ? CountRange{0.6, 0.9, 1.6} : CountRange{0.3, 1, 4}};
  };
  entry.make = make_sparsifier<Oktopk>;
}};

}  // namespace
}  // namespace dragonn::compress
