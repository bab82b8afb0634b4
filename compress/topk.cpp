// SPDX-License-Identifier: MIT
#include "compress/sparsifier.h"
#include "compress/threshold.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {
namespace {

/// Selects exactly, from candidates above a sampled bound a little below the k-th magnitude. If the bound is too high
/// the kernel makes one more pass, so that the result does not depend on the sample.
class Topk final : public Sparsifier {
 public:
  Topk(std::size_t numel, const Device& device) : numel_(numel), scratch_(device) { scratch_.reserve(numel); }

  kernels::PassRequest plan(const SelectContext& context) override {
    return bounded_request(numel_, context.k, context, "topk sample");
  }

  void select(const SelectContext& context, const kernels::PassResult& pass, View<const float> acc,
              SparseVector& selected) override {
    kernels::reserve_selection(selected, numel_);
    kernels::select_largest(acc, context.k, pass.selected, pass.threshold, scratch_, selected);
    has_selected_ = true;
  }

  /// Waits for a GPU, on which the selection did not.
  float threshold() const override {
    return has_selected_ ? kernels::smallest_kept(scratch_) : std::numeric_limits<float>::quiet_NaN();
  }

 private:
  std::size_t numel_;
  kernels::MagnitudeScratch scratch_;
  bool has_selected_ = false;
};

const Registration<SparsifierEntry> registration{[] {
  SparsifierEntry entry;
  entry.name = "topk";
  entry.summary = "the k entries of largest magnitude, exactly";
  entry.source = "arXiv:1901.04359 (gTop-k), algorithm 1, with ties to the lower index";
  entry.traits = [](const Settings&) { return SelectionTraits{.at_most_k = true}; };
  entry.exact = true;
  entry.make = [](const Settings&, std::size_t numel, const Device& device) {
    return std::make_unique<Topk>(numel, device);
  };
  return entry;
}()};

}  // namespace
}  // namespace dragonn::compress
