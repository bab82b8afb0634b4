// SPDX-License-Identifier: MIT
/// The exact sparsifiers: `topk`, and `cltk`, which runs it on one rank per step.
#include "compress/sparsifier.h"
#include "compress/threshold.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {
namespace {

/// Selects exactly, from candidates above a sampled bound a little below the k-th magnitude. If the bound is too high
/// the kernel makes one more pass, so that the result does not depend on the sample.
class Topk : public Sparsifier {
 public:
  Topk(const Settings&, std::size_t numel, const Device& device) : numel_(numel), scratch_(device) {
    scratch_.reserve(numel);
  }

  kernels::PassRequest plan(const SelectContext& context) override {
    return bounded_request(numel_, context.k, context, "topk sample");
  }

  void select(const SelectContext& context, kernels::PassResult& pass, View<const float> acc,
              SparseVector& selected) override {
    kernels::reserve_selection(selected, numel_);
    kernels::select_largest(acc, context.k, pass.selected, pass.threshold, scratch_, selected);
    has_selected_ = true;
  }

  /// Waits for a GPU, on which the selection did not.
  float threshold() const override { return has_selected_ ? kernels::smallest_kept(scratch_) : threshold_; }

 private:
  std::size_t numel_;
  kernels::MagnitudeScratch scratch_;
  bool has_selected_ = false;
};

/// Selects the exact top-k on the leader, rank (step mod P). The other ranks select nothing, at no cost.
class LeaderTopk final : public Topk {
 public:
  using Topk::Topk;

  kernels::PassRequest plan(const SelectContext& context) override {
    return is_leader(context) ? Topk::plan(context) : kernels::PassRequest{};
  }

  void select(const SelectContext& context, kernels::PassResult& pass, View<const float> acc,
              SparseVector& selected) override {
    if (!is_leader(context)) return selected.clear();
    Topk::select(context, pass, acc, selected);
  }

  float threshold() const override { return threshold_; }  // none: few ranks would have one

 private:
  static bool is_leader(const SelectContext& context) {
    return context.step % static_cast<std::uint64_t>(context.world_size) == static_cast<std::uint64_t>(context.rank);
  }
};

const Registration<SparsifierEntry> topk{[](SparsifierEntry& entry) {
  entry.name = "topk";
  entry.summary = "the k entries of largest magnitude, exactly";
  entry.source = "arXiv:1901.04359 (gTop-k), algorithm 1, with ties to the lower index";
  entry.traits = [](const Settings&) { return SelectionTraits{.at_most_k = true}; };
  entry.exact = true;
  entry.make = make_sparsifier<Topk>;
}};

const Registration<SparsifierEntry> cltk{[](SparsifierEntry& entry) {
  entry.name = "cltk";
  entry.summary = "the k entries of largest magnitude on the leader; the leader changes every step";
  entry.source = "ScaleCom (Chen et al., NeurIPS 2020), CLT-k, without its residual filter";
  entry.exact = true;
  entry.traits = [](const Settings&) { return SelectionTraits{.leader_only = true}; };
  entry.make = make_sparsifier<LeaderTopk>;
}};

}  // namespace
}  // namespace dragonn::compress
