// SPDX-License-Identifier: MIT
#include <array>

#include "bench/device_timer.h"
#include "bench/selection.h"
#include "compress/memory.h"
#include "kernels/gradient/gradient_pass.h"

namespace dragonn::bench {
namespace {

using compress::MemoryEntry;
using compress::SparsifierEntry;
using kernels::PassRequest;

class MethodSelection final : public Selection {
 public:
  explicit MethodSelection(const SelectionSpec& spec)
      : thresholds_(spec.thresholds),
        numel_(spec.numel),
        device_(spec.device),
        context_{.density = spec.density, .k = compress::target_count(spec.density, spec.numel)},
        selected_(spec.device) {
    const auto& memory = Registry<MemoryEntry>::instance().at(spec.is_fused ? "residual" : "none");
    sparsifier_ = Registry<SparsifierEntry>::instance().at(spec.name).make(spec.settings, numel_, device_);
    memory_ = memory.make(Settings(memory.settings), numel_, 0.0f, false, device_);
  }

  double run(const Subject& subject) override {
    const std::uint64_t before = kernels::swept_elements();
    const double seconds = seconds_on(device_, [&] {
      const PassRequest request = replace_threshold(sparsifier_->plan(context_), subject.exact_threshold);
      const kernels::PassResult& pass = memory_->compensate(request, subject.gradient, 1.0f);
      sparsifier_->select(context_, pass, memory_->accumulated(), selected_);
    });
    elements_read_ = kernels::swept_elements() - before;
    memory_->settle({.contributed_all = true});
    const std::array<std::uint64_t, 1> counts{selected_.size()};
    sparsifier_->observe({.step = context_.step,
                          .numel = numel_,
                          .k = context_.k,
                          .selected_counts = counts,
                          .global_count = selected_.size()});
    ++context_.step;
    return seconds;
  }

  const SparseVector& selected() const override { return selected_; }
  std::size_t elements_read() const override { return elements_read_; }
  float threshold() const override { return sparsifier_->threshold(); }

 private:
  PassRequest replace_threshold(PassRequest request, float exact) const {
    const bool known = request.kind == PassRequest::Kind::kThreshold && request.threshold > 0;
    const bool sampled = request.kind == PassRequest::Kind::kSampledThreshold;
    if ((known && thresholds_ != Thresholds::kMethod) || (sampled && thresholds_ == Thresholds::kExact)) {
      request.kind = PassRequest::Kind::kThreshold;
      request.threshold = exact;
    }
    return request;
  }

  Thresholds thresholds_;
  std::size_t numel_;
  Device device_;
  compress::SelectContext context_;
  std::unique_ptr<compress::Sparsifier> sparsifier_;
  std::unique_ptr<compress::Memory> memory_;
  SparseVector selected_;
  std::size_t elements_read_ = 0;
};

}  // namespace

std::unique_ptr<Selection> make_method_selection(const SelectionSpec& spec) {
  return std::make_unique<MethodSelection>(spec);
}

}  // namespace dragonn::bench
