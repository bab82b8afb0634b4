// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "compress/sparsifier.h"
#include "compress/threshold.h"
#include "core/choice.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {
namespace {

enum class Mode { kFixed, kSearch, kTrim };
constexpr auto choices(Mode) {
  return std::array{"fixed", "search", "trim"};
}

/// Selects by a threshold between the mean and the largest magnitude: th(r) = mean + r (largest - mean). A search moves
/// r until about k entries reach it, in so few trials that on many inputs it fails.
class Redsync final : public Sparsifier {
 public:
  Redsync(const Settings& settings, std::size_t numel, const Device& device)
      : mode_(choice_of<Mode>("mode", settings.text("mode"))),
        tolerance_(settings.number("tolerance")),
        numel_(numel),
        pool_(numel, device) {}

  kernels::PassRequest plan(const SelectContext&) override { return {.kind = kernels::PassRequest::Kind::kMoments}; }

  void select(const SelectContext& context, kernels::PassResult& pass, View<const float> acc,
              SparseVector& selected) override {
    kernels::reserve_selection(selected, numel_);
    if (pass.non_finite || pass.moments.largest == 0) return;
    mean_ = pass.moments.sum / static_cast<double>(numel_);
    largest_ = pass.moments.largest;
    pool_.gather(acc, 2 * context.k, context, "redsync sample");
    const double ratio = mode_ == Mode::kTrim ? trim(context.k) : search(context.k);
    threshold_ = threshold_at(ratio);
    // The released code takes all entries that its search ends with; the other modes choose among too many.
    const std::size_t max = mode_ == Mode::kTrim ? context.k : 2 * context.k;
    if (mode_ != Mode::kSearch && pool_.count(threshold_) > max)
      threshold_ = pool_.select_largest(context.k, selected);
    else
      pool_.select(acc, threshold_, selected);
  }

 private:
  /// Returns th(ratio). Rounding must not lift it above the largest magnitude, which is the mean of a constant vector.
  float threshold_at(double ratio) const {
    return static_cast<float>(std::min(largest_, mean_ + ratio * (largest_ - mean_)));
  }

  /// Halves [0, 1] until it is no wider than the tolerance; returns the last r tried.
  double search(std::size_t k) const {
    double low = 0, high = 1, ratio = 0;
    do {
      ratio = (low + high) / 2;
      const std::size_t count = pool_.count(threshold_at(ratio));
      if (mode_ == Mode::kSearch) {
        if (count > k && count < 2 * k) break;
        (2 * count < k ? high : low) = ratio;
      } else {
        if (count >= k && count <= 2 * k) break;
        (count < k ? high : low) = ratio;
      }
    } while (high - low > tolerance_);
    return ratio;
  }

  /// Lowers the ratio in fifths from 4/5 until k entries reach the threshold, at most to the mean.
  double trim(std::size_t k) const {
    int fifths = 4;
    while (fifths > 0 && pool_.count(threshold_at(fifths / 5.0)) < k) --fifths;
    return fifths / 5.0;
  }

  Mode mode_;
  double tolerance_;
  std::size_t numel_;
  CandidatePool pool_;
  double mean_ = 0, largest_ = 0;
};

const Registration<SparsifierEntry> registration{[](SparsifierEntry& entry) {
  entry.name = "redsync";
  entry.summary = "entries above a threshold found by a search between the mean and the largest magnitude";
  entry.source = "RedSync (Fang et al., JPDC 2019); the search of SIDCo's released code, sands-lab/SIDCo";
  entry.settings = {
      SettingSpec::text(
          "mode", "fixed",
          "fixed: search a threshold that selects k to 2k entries, and keep the k largest if it ends with more; "
          "search: as in the released code, which also raises the threshold at k/2 to k entries; trim: lower the "
          "threshold in fifths until it selects k entries, and keep the k largest",
          choice_names<Mode>()),
      SettingSpec::number("tolerance", 0.2, "the search ends when its bracket, 1 wide at first, is this narrow", 1e-6,
                          1)};
  // Three trials between the mean and the largest magnitude may end anywhere; more than 2k are reduced to k.
  entry.band = {.low = 0, .high = 2};
  // Measured as for `dgc`: 0.71 to 1.32.
  // `trim` keeps k; `search`, which has not been measured, raises a threshold at k/2 entries, too.
  entry.forecast = [](const Settings& values) {
    const std::string& mode = values.text("mode");
    if (mode == "trim") return CountForecast{.settled = {0.9, 1, 1}};
    return CountForecast{.settled = mode == "fixed" ? CountRange{0.3, 0.9, 1.7} : CountRange{0.1, 1, 3}};
  };
  entry.make = make_sparsifier<Redsync>;
}};

}  // namespace
}  // namespace dragonn::compress
