// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <utility>

#include "compress/sparsifier.h"
#include "compress/threshold.h"
#include "core/rng.h"
#include "kernels/gradient/hash_select.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {
namespace {

/// Hashes the entries above a sampled threshold into m slots; those that lose their slot stay in the memory. The hash
/// has a new salt at every step: with a fixed one the same indices would collide for ever. With eight slots a hit 94 of
/// 100 hits keep theirs; with as many slots as hits, as in the paper, 63. Where elements are not more than slots, each
/// has its own: nothing is hashed.
class Dragonn final : public Sparsifier {
 public:
  Dragonn(const Settings& settings, std::size_t numel, const Device& device)
      : slots_(settings.number("slots")),
        oversample_(settings.number("oversample")),
        priority_(settings.text("collision") == "priority"),
        sample_(sample_rules(settings)),
        numel_(numel),
        scratch_(device) {
    scratch_.reserve(numel, std::min(slots(numel), numel));
  }

  kernels::PassRequest plan(const SelectContext& context) override {
    const double hits = oversample_ * static_cast<double>(context.k);
    const double share = numel_ == 0 ? 1.0 : hits / static_cast<double>(numel_);
    kernels::PassRequest request = sampled_request(sample_, numel_, share, context, "dragonn sample");
    if (slots(context.k) >= numel_) return request;
    const auto rank = static_cast<std::uint64_t>(context.rank);
    const std::uint64_t salt = stream_key(context.seed, "dragonn slot", {context.bucket, context.step, rank});
    request.hash = {.rule = {.slot = {salt, slots(context.k)}, .by_priority = priority_}, .scratch = &scratch_};
    return request;
  }

  void select(const SelectContext& /*context*/, kernels::PassResult& pass, View<const float> /*acc*/,
              SparseVector& selected) override {
    threshold_ = pass.threshold;
    kernels::reserve_selection(selected, numel_);
    if (pass.request.hash.scratch == nullptr) return std::swap(pass.selected, selected);
    kernels::hash_select(pass.selected, pass.request.hash, selected);
  }

 private:
  std::size_t slots(std::size_t k) const {
    return std::max<std::size_t>(1, static_cast<std::size_t>(slots_ * static_cast<double>(k)));
  }

  double slots_, oversample_;
  bool priority_;
  SampleRules sample_;
  std::size_t numel_;
  kernels::HashScratch scratch_;
};

const Registration<SparsifierEntry> registration{[](SparsifierEntry& entry) {
  entry.name = "dragonn";
  entry.summary = "entries above a sampled threshold, hashed into a table of fixed size";
  entry.source = "DRAGONN (Wang et al., ICML 2022), algorithm 1";
  entry.settings = sample_settings();
  entry.settings.push_back(
      SettingSpec::number("slots", 8,
                          "slots of the hash table, as a multiple of k; 1: the paper's, where 37 % of the hits wait", 0,
                          1e3)
          .above_minimum());
  entry.settings.push_back(
      SettingSpec::number("oversample", 1,
                          "number of entries that the sampled threshold aims to select, as a multiple of k", 0, 1e3)
          .above_minimum());
  entry.settings.push_back(SettingSpec::text(
      "collision", "last",
      "which of two colliding entries keeps the slot; last: the one of larger index; priority: a random one",
      {"last", "priority"}));
  // The number of hits above a threshold of rank 16 in its sample has a relative standard deviation of 1/4 at most: 4.5
  // of them downwards cannot be reached, upwards are 2.1. Of the slots 1 - exp(-hits / (8 k)) are filled.
  entry.band = {.low = 0.25, .high = 1.9};
  // As hashing has it; measured on the two MLPs of `dgc` alone: 0.88 to 1.05 with eight slots an entry.
  entry.forecast = [](const Settings& values) {
    // Of l hits m (1 - (1 - 1/m)^l) keep their slots.
    const double slots = values.number("slots"), hits = values.number("oversample");
    const double kept = slots * (1 - std::exp(-hits / slots));
    return CountForecast{.settled = {0.5 * kept, kept, 1.6 * kept}};
  };
  entry.make = make_sparsifier<Dragonn>;
}};

}  // namespace
}  // namespace dragonn::compress
