// SPDX-License-Identifier: MIT
#include <limits>
#include <numeric>

#include "compress/sparsifier.h"
#include "kernels/devices.h"

namespace dragonn::compress {
namespace {

/// Selects every entry, whatever the density: for quantizers, and to compare lists with.
class All final : public Sparsifier {
 public:
  All(const Settings&, std::size_t numel, const Device& device) : numel_(numel), indices_(0, device) {}

  kernels::PassRequest plan(const SelectContext&) override { return {}; }

  void select(const SelectContext&, kernels::PassResult&, View<const float> acc, SparseVector& selected) override {
    if (indices_.size() != numel_) {
      std::vector<std::uint32_t> indices(numel_);
      std::iota(indices.begin(), indices.end(), std::uint32_t{0});
      indices_.resize_discard(numel_);
      kernels::transfer(View<const std::uint32_t>(std::span<const std::uint32_t>(indices)), indices_.view());
    }
    selected.resize_discard(numel_);
    kernels::transfer(std::as_const(indices_).view(), selected.indices.view());
    kernels::transfer(acc, selected.values.view());
  }

 private:
  std::size_t numel_;
  Buffer<std::uint32_t> indices_;
};

const Registration<SparsifierEntry> registration{[](SparsifierEntry& entry) {
  entry.name = "all";
  entry.summary = "every entry, at any density; for quantizers";
  entry.source = "EF-SignSGD (arXiv:1901.09847) and QSGD (arXiv:1610.02132) send all entries";
  entry.band.high = std::numeric_limits<double>::infinity();
  entry.traits = [](const Settings&) { return SelectionTraits{.shared_indices = true, .blind = true}; };
  // More than any bucket has.
  constexpr double kAll = std::numeric_limits<double>::infinity();
  entry.forecast = [](const Settings&) { return CountForecast{.settled = {kAll, kAll, kAll}}; };
  entry.make = make_sparsifier<All>;
}};

}  // namespace
}  // namespace dragonn::compress
