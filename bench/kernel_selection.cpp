// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "bench/device_timer.h"
#include "bench/selection.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/select.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::bench {
namespace {

using kernels::PassRequest;

/// The buffers of a kernel's run.
struct KernelState {
  explicit KernelState(const Device& device) : residual(0, device), pass(device) {}

  Buffer<float> residual;  ///< used by fused kernels
  kernels::PassResult pass;
};

PassRequest threshold_request(const Subject& subject) {
  return {.kind = PassRequest::Kind::kThreshold, .threshold = subject.exact_threshold, .end = subject.gradient.size()};
}

void run_accumulate(const Subject& subject, const PassRequest& request, KernelState& state) {
  kernels::accumulate_residual(request, subject.gradient, {}, state.residual.view(), state.pass);
}

struct Kernel {
  KernelName name;
  void (*run)(const Subject&, KernelState&);
};

const std::vector<Kernel>& all_kernels() {
  static const std::vector<Kernel> table{
      {{"select_threshold", false},
       [](const Subject& subject, KernelState& state) {
         kernels::select_threshold(subject.gradient, subject.exact_threshold, state.pass.selected);
       }},
      {{"moments", false},
       [](const Subject& subject, KernelState& state) {
         kernels::examine({.kind = PassRequest::Kind::kMoments}, subject.gradient, state.pass);
       }},
      {{"accumulate", true}, [](const Subject& subject, KernelState& state) { run_accumulate(subject, {}, state); }},
      {{"accumulate_select", true},
       [](const Subject& subject, KernelState& state) { run_accumulate(subject, threshold_request(subject), state); }},
      {{"accumulate_moments", true}, [](const Subject& subject, KernelState& state) {
         run_accumulate(subject, {.kind = PassRequest::Kind::kMoments}, state);
       }}};
  return table;
}

const Kernel* find_kernel(const std::string& name) {
  const auto found =
      std::ranges::find_if(all_kernels(), [&](const Kernel& kernel) { return kernel.name.name == name; });
  return found == all_kernels().end() ? nullptr : &*found;
}

class KernelSelection final : public Selection {
 public:
  explicit KernelSelection(const SelectionSpec& spec)
      : device_(spec.device), kernel_(find_kernel(spec.name)), state_(spec.device) {
    if (kernel_ == nullptr) baseline_ = &Registry<BaselineEntry>::instance().at(spec.name);
    state_.pass.reserve(spec.numel);
    if (!spec.is_fused) return;
    state_.residual.resize_discard(spec.numel);
    kernels::fill(0, state_.residual.view());
  }

  double run(const Subject& subject) override {
    const std::uint64_t before = kernels::swept_elements();
    const double seconds = seconds_on(device_, [&] { select(subject); });
    elements_read_ = kernels::swept_elements() - before;
    kernels::fill(0, state_.residual.view());
    return seconds;
  }
  const SparseVector& selected() const override { return state_.pass.selected; }
  std::size_t elements_read() const override { return elements_read_; }
  float threshold() const override { return std::numeric_limits<float>::quiet_NaN(); }

 private:
  void select(const Subject& subject) {
    if (kernel_ != nullptr) {
      kernel_->run(subject, state_);
    } else {
      baseline_->select(subject, state_.pass.selected);
    }
  }

  Device device_;
  const Kernel* kernel_;
  const BaselineEntry* baseline_ = nullptr;  ///< set if it is no kernel of this project
  KernelState state_;
  std::size_t elements_read_ = 0;
};

}  // namespace

const std::vector<KernelName>& kernel_names() {
  static const std::vector<KernelName> names = [] {
    std::vector<KernelName> result;
    for (const Kernel& kernel : all_kernels()) result.push_back(kernel.name);
    const auto& baselines = Registry<BaselineEntry>::instance();
    for (const std::string& name : baselines.names())
      result.push_back({name, false, baselines.at(name).device, baselines.at(name).obstacle});
    return result;
  }();
  return names;
}

std::unique_ptr<Selection> make_kernel_selection(const SelectionSpec& spec) {
  return std::make_unique<KernelSelection>(spec);
}

}  // namespace dragonn::bench
