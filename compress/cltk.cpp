// SPDX-License-Identifier: MIT
#include "compress/sparsifier.h"
#include "compress/threshold.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {
namespace {

/// Selects the exact top-k on the leader, rank (step mod P). The other ranks select nothing, at no cost.
class LeaderTopk final : public Sparsifier {
 public:
  LeaderTopk(std::size_t numel, const Device& device) : numel_(numel), scratch_(device) { scratch_.reserve(numel); }

  kernels::PassRequest plan(const SelectContext& context) override {
    return is_leader(context) ? bounded_request(numel_, context.k, context, "cltk sample") : kernels::PassRequest{};
  }

  void select(const SelectContext& context, const kernels::PassResult& pass, View<const float> acc,
              SparseVector& selected) override {
    if (!is_leader(context)) return selected.clear();
    kernels::reserve_selection(selected, numel_);
    kernels::select_largest(acc, context.k, pass.selected, pass.threshold, scratch_, selected);
  }

 private:
  static bool is_leader(const SelectContext& context) {
    return context.step % static_cast<std::uint64_t>(context.world_size) == static_cast<std::uint64_t>(context.rank);
  }

  std::size_t numel_;
  kernels::MagnitudeScratch scratch_;
};

const Registration<SparsifierEntry> registration{[] {
  SparsifierEntry entry;
  entry.name = "cltk";
  entry.summary = "the k entries of largest magnitude on the leader; the leader changes every step";
  entry.source = "ScaleCom (Chen et al., NeurIPS 2020), CLT-k, without its residual filter";
  entry.exact = true;
  entry.traits = [](const Settings&) { return SelectionTraits{.leader_only = true}; };
  entry.make = [](const Settings&, std::size_t numel, const Device& device) {
    return std::make_unique<LeaderTopk>(numel, device);
  };
  return entry;
}()};

}  // namespace
}  // namespace dragonn::compress
