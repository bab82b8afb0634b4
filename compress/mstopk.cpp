// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "compress/sparsifier.h"
#include "compress/threshold.h"
#include "core/rng.h"
#include "kernels/devices.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {
namespace {

/// Two thresholds that bracket the k-th magnitude.
struct Bracket {
  float above;  ///< `above_count` <= k entries reach it
  std::size_t above_count;
  float below;  ///< more than k entries reach it; 0 if no such threshold was tried
};

/// Selects exactly k entries, nearly the largest: all above a bracket from a bisection, and a random run of those in
/// it.
class Mstopk final : public Sparsifier {
 public:
  Mstopk(const Settings& settings, std::size_t numel, const Device& device)
      : iterations_(static_cast<int>(settings.integer("iterations"))),
        numel_(numel),
        pool_(numel, device),
        band_(device),
        candidates_(device),
        band_values_(device),
        band_indices_(device) {
    magnitudes_.resize_discard(numel);
    taken_.resize_discard(numel);
    kernels::reserve_selection(band_, numel);
  }

  kernels::PassRequest plan(const SelectContext&) override { return {.kind = kernels::PassRequest::Kind::kMoments}; }

  void select(const SelectContext& context, kernels::PassResult& pass, View<const float> acc,
              SparseVector& selected) override {
    kernels::reserve_selection(selected, numel_);
    if (pass.non_finite || pass.moments.largest == 0) return;
    pool_.gather(acc, context.k, context, "mstopk sample");
    const Bracket bracket = bisect(pass.moments.sum / static_cast<double>(numel_), pass.moments.largest, context.k);
    pool_.select(acc, bracket.below, band_);
    take(context, bracket, selected);
    // The upper end of the bracket if it alone gave k entries, else the lower.
    threshold_ = bracket.above_count == context.k ? bracket.above : bracket.below;
  }

 private:
  /// Bisects th(r) = mean + r (largest - mean) on r. Thresholds up to the pool's bound are known to be too low; the
  /// others divide the magnitudes between the ends of the bracket, so that the work shrinks with it.
  Bracket bisect(double mean, double largest, std::size_t k) {
    Bracket bracket{.above = std::numeric_limits<float>::infinity(), .above_count = 0, .below = 0};
    const auto candidates = candidates_.of(pool_.entries().values.view());
    std::ranges::transform(candidates, magnitudes_.data(), [](float value) { return std::fabs(value); });
    std::span<float> inside(magnitudes_.data(), candidates.size());
    double low = 0, high = 1;
    // With k entries above the bracket the rest of the bisection would not change the selection.
    for (int iteration = 0; iteration < iterations_ && bracket.above_count < k; ++iteration) {
      const double ratio = (low + high) / 2;
      const auto threshold = static_cast<float>(mean + ratio * (largest - mean));
      std::size_t reached = inside.size();
      if (threshold > pool_.bound()) {
        const auto rest = std::ranges::partition(inside, [&](float magnitude) { return magnitude >= threshold; });
        reached = inside.size() - rest.size();
      }
      if (bracket.above_count + reached <= k) {
        high = ratio;
        bracket.above = threshold;
        bracket.above_count += reached;
        inside = inside.subspan(reached);
      } else {
        low = ratio;
        bracket.below = threshold;
        inside = inside.first(reached);
      }
    }
    return bracket;
  }

  /// Writes the selection, in order of index: band_ holds all that reach the bracket's lower end.
  void take(const SelectContext& context, const Bracket& bracket, SparseVector& selected) {
    const auto indices = band_indices_.of(band_.indices.view());
    const auto values = band_values_.of(band_.values.view());
    const std::size_t inside = band_.size() - bracket.above_count;
    const std::size_t wanted = std::min(context.k - bracket.above_count, inside);
    Rng rng(context.seed, "mstopk", {context.bucket, context.step, static_cast<std::uint64_t>(context.rank)});
    const std::size_t first = rng.below(inside - wanted + 1);
    std::size_t seen = 0, count = 0;
    taken_.resize_discard(bracket.above_count + wanted);
    for (std::size_t entry = 0; entry < band_.size(); ++entry) {
      const float value = values[entry];
      const bool is_above = std::fabs(value) >= bracket.above;
      const bool is_in_run = !is_above && seen >= first && seen < first + wanted;
      seen += is_above ? 0 : 1;
      if (!is_above && !is_in_run) continue;
      taken_.indices.data()[count] = indices[entry];
      taken_.values.data()[count++] = value;
    }
    kernels::copy_entries(taken_, selected);
  }

  int iterations_;
  std::size_t numel_;
  CandidatePool pool_;
  Buffer<float> magnitudes_;
  SparseVector band_;
  // Mirrors on the host, where the bisection and the choice are made: they are O(k).
  kernels::HostMirror<float> candidates_, band_values_;
  kernels::HostMirror<std::uint32_t> band_indices_;
  SparseVector taken_;
};

const Registration<SparsifierEntry> registration{[](SparsifierEntry& entry) {
  entry.name = "mstopk";
  entry.summary = "exactly k entries, approximately the largest, by bisection of the threshold";
  entry.source = "MSTopk (Shi et al., MLSys 2021)";
  entry.settings = {SettingSpec::integer("iterations", 30, "number of bisections of the threshold", 1, 1000)};
  entry.traits = [](const Settings&) { return SelectionTraits{.at_most_k = true}; };
  entry.exact = true;
  entry.make = make_sparsifier<Mstopk>;
}};

}  // namespace
}  // namespace dragonn::compress
