// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>

#include "compress/sparsifier.h"
#include "compress/threshold.h"
#include "core/choice.h"
#include "core/log.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {
namespace {

/// The values that a variant fits, and the rule that moves the fitted threshold while its count is out of bounds.
struct Variant {
  const char* name;
  bool fits_magnitudes;  ///< a normal distribution to |acc| instead of acc
  double few_at_first;   ///< times k: the fitted threshold is lowered if fewer than this reach it
  double few;            ///< times k: lowering goes on while fewer than this reach it
  double many;           ///< times k: raised while more than this reach it
  bool whole_bounds;     ///< these bounds are rounded down
  double lower;          ///< divisor
  double raise;          ///< factor
  int max_changes;
  bool may_turn;  ///< may lower and raise in one search
};
constexpr double kNever = std::numeric_limits<double>::infinity();
// The code of sidco changes the threshold three times, and the third change comes too late to count.
constexpr std::array kVariants{Variant{"vgg", false, 3.0 / 4, 3.0 / 4, 5.0 / 4, true, 1.02, 1.02, 20, false},
                               Variant{"lstm", false, 3.0 / 4, 3.0 / 4, kNever, false, 1.012, 1, 50, false},
                               Variant{"bert", false, 3.0 / 4, 5.0 / 6, kNever, false, 1.012, 1, 20, false},
                               Variant{"sidco", true, 2.0 / 3, 2.0 / 3, 4.0 / 3, false, 2, 1.5, 2, true}};

/// Takes the threshold that a normal distribution with the vector's mean and variance would have, then moves it by
/// constant factors towards k. Gradients are not normal: on heavy tails the search ends before it reaches k.
class GaussianK final : public Sparsifier {
 public:
  GaussianK(const Settings& settings, std::size_t numel, const Device& device)
      : variant_(variant_of(kVariants, settings.text("variant"))), numel_(numel), pool_(numel, device) {}

  kernels::PassRequest plan(const SelectContext&) override { return {.kind = kernels::PassRequest::Kind::kMoments}; }

  void select(const SelectContext& context, kernels::PassResult& pass, View<const float> acc,
              SparseVector& selected) override {
    kernels::reserve_selection(selected, numel_);
    if (pass.non_finite || pass.moments.largest == 0) return;
    // No rule needs the exact count beyond twice the target.
    pool_.gather(acc, 2 * context.k, context, "gaussiank sample");
    threshold_ = adapt(fit(context, pass.moments), context.k);
    pool_.select(acc, threshold_, selected);
  }

 private:
  double fit(const SelectContext& context, const kernels::Moments& moments) {
    const auto n = static_cast<double>(numel_);
    const double mean = (variant_.fits_magnitudes ? moments.sum : moments.signed_sum) / n;
    const double variance = numel_ < 2 ? 0 : std::max(0.0, (moments.sum_squares - n * mean * mean) / (n - 1));
    const double threshold = mean + std::sqrt(variance) * normal_upper_quantile(context.density / 2);
    constexpr double kSmallest = std::numeric_limits<float>::min();
    if (threshold < kSmallest && !has_warned_) {
      has_warned_ = true;
      log::warning(context.rank,
                   "gaussiank: bucket {} has mean {} and standard deviation {}: the fit gives no positive threshold, "
                   "so every non-zero entry is selected (warned once)",
                   context.bucket, mean, std::sqrt(variance));
    }
    // A NaN stays one.
    return threshold < kSmallest ? kSmallest : threshold;
  }

  float adapt(double threshold, std::size_t k) const {
    const auto bound = [&](double share) {
      const double entries = share * static_cast<double>(k);
      return variant_.whole_bounds ? std::floor(entries) : entries;
    };
    int lowered = 0, raised = 0;
    while (lowered + raised < variant_.max_changes) {
      const auto count = static_cast<double>(pool_.count(static_cast<float>(threshold)));
      const bool is_first = lowered + raised == 0;
      if (count < bound(is_first ? variant_.few_at_first : variant_.few) && (raised == 0 || variant_.may_turn)) {
        threshold /= variant_.lower;
        ++lowered;
      } else if (count > bound(variant_.many) && (lowered == 0 || variant_.may_turn)) {
        threshold *= variant_.raise;
        ++raised;
      } else {
        break;
      }
    }
    return static_cast<float>(threshold);
  }

  const Variant& variant_;
  std::size_t numel_;
  CandidatePool pool_;
  bool has_warned_ = false;
};

const Registration<SparsifierEntry> registration{[](SparsifierEntry& entry) {
  entry.name = "gaussiank";
  entry.summary = "entries above a threshold from a fitted normal distribution";
  entry.source = "arXiv:1911.08772 (Gaussian-k); variants: Shigangli/Ok-Topk, sands-lab/SIDCo";
  entry.settings = {SettingSpec::text("variant", "vgg",
                                      "released code whose fit and correction are used; vgg, lstm, bert: Ok-Topk's; "
                                      "sidco: SIDCo's, which fits the magnitudes",
                                      names_in(kVariants))};
  // The fit is corrected by 1.02^20, about a factor of 1.5, which does not make up for heavy tails.
  entry.band = {.low = 0.75, .high = 8, .may_miss_ties = true};
  // Measured as for `dgc`: 0.83 to 1.57; in 2,340 steps of ResNet-20 1.48 in the mean (docs/results/accuracy.md).
  // The other variants, which have not been measured, correct in fewer or coarser steps.
  entry.forecast = [](const Settings& values) {
    return CountForecast{.settled = values.text("variant") == "vgg" ? CountRange{0.6, 1, 2} : CountRange{0.3, 1, 4}};
  };
  entry.make = make_sparsifier<GaussianK>;
}};

}  // namespace
}  // namespace dragonn::compress
