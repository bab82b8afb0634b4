// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <utility>

#include "compress/sparsifier.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {
namespace {

/// Selects the entries above a fixed threshold: one pass, and no control over how many there are.
class HardThreshold final : public Sparsifier {
 public:
  HardThreshold(const Settings& settings, std::size_t numel, const Device&)
      : given_(settings.number("threshold")), numel_(numel) {}

  kernels::PassRequest plan(const SelectContext& context) override {
    const auto k = static_cast<double>(std::max<std::size_t>(1, context.k));
    threshold_ = static_cast<float>(given_ > 0 ? given_ : 1 / (2 * std::sqrt(k)));
    return {.kind = kernels::PassRequest::Kind::kThreshold, .threshold = threshold_, .begin = 0, .end = numel_};
  }

  void select(const SelectContext& /*context*/, kernels::PassResult& pass, View<const float> /*acc*/,
              SparseVector& selected) override {
    kernels::reserve_selection(selected, numel_);
    std::swap(pass.selected, selected);
  }

 private:
  double given_;
  std::size_t numel_;
};

const Registration<SparsifierEntry> registration{[](SparsifierEntry& entry) {
  entry.name = "hard_threshold";
  entry.summary = "entries above a fixed threshold";
  entry.source = "ExDyna (2024), the baseline of its released code; GRACE, threshold";
  entry.settings = {SettingSpec::number("threshold", 0,
                                        "smallest magnitude that is sent; 0: 1 / (2 sqrt(k)) for a target of k entries",
                                        0, std::numeric_limits<float>::max())};
  // Nothing controls the count.
  entry.band = kAnyCount;
  // Measured as for `dgc`: 0 to 37, falling as training goes on; ExDyna (2024), section V-B, saw 106.6.
  entry.forecast = [](const Settings&) { return CountForecast{.settled = {0, 8, 107}}; };
  entry.make = make_sparsifier<HardThreshold>;
}};

}  // namespace
}  // namespace dragonn::compress
