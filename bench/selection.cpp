// SPDX-License-Identifier: MIT
#include "bench/selection.h"

#include <algorithm>
#include <numeric>

#include "bench/device_timer.h"
#include "compress/tiles.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/select.h"
#include "kernels/gradient/tile_transform.h"
#include "kernels/nn/elementwise.h"
#include "trainer/cost_model/cost_model_measure.h"

namespace dragonn::bench {
namespace {

using kernels::PassRequest;

/// The buffers of a kernel's run.
struct KernelState {
  explicit KernelState(const Device& device) : residual(0, device), pass(device), transformed(0, device) {}

  Buffer<float> residual;  ///< used by fused kernels
  kernels::PassResult pass;
  // Used by the transform, and made in its first run.
  std::vector<kernels::TiledMatrix> matrices;
  std::optional<kernels::CosineBases> bases;
  Buffer<float> transformed;
};

PassRequest threshold_request(const Subject& subject) {
  return {.kind = PassRequest::Kind::kThreshold, .threshold = subject.exact_threshold, .end = subject.gradient.size()};
}

void run_accumulate(const Subject& subject, const PassRequest& request, KernelState& state) {
  kernels::accumulate_residual(request, subject.gradient, {}, state.residual.view(), state.pass);
}

/// Transforms the gradient as a matrix of up to 1,024 columns.
void run_transform(const Subject& subject, KernelState& state) {
  const std::size_t numel = subject.gradient.size();
  if (state.matrices.empty()) {
    const std::size_t columns = std::gcd(numel, std::size_t{1024});
    const Shape shape{static_cast<std::int64_t>(numel / columns), static_cast<std::int64_t>(columns)};
    state.matrices = {compress::cut_into_tiles(shape, compress::chunk_of({}))};
    state.bases.emplace(state.matrices, subject.gradient.device());
    state.transformed.resize_discard(numel);
  }
  kernels::transform_tiles(subject.gradient, state.matrices, *state.bases, kernels::TransformDirection::kForward,
                           state.transformed.view());
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
      {{"transform_tiles", false}, run_transform},
      {{"accumulate", true}, [](const Subject& subject, KernelState& state) { run_accumulate(subject, {}, state); }},
      {{"accumulate_select", true},
       [](const Subject& subject, KernelState& state) { run_accumulate(subject, threshold_request(subject), state); }},
      {{"accumulate_moments", true}, [](const Subject& subject, KernelState& state) {
         run_accumulate(subject, {.kind = PassRequest::Kind::kMoments}, state);
       }}};
  return table;
}

class KernelSelection final : public Selection {
 public:
  explicit KernelSelection(const SelectionSpec& spec) : Selection(spec.device), state_(spec.device) {
    const auto kernel =
        std::ranges::find_if(all_kernels(), [&](const Kernel& other) { return other.name.name == spec.name; });
    if (kernel != all_kernels().end()) {
      run_ = kernel->run;
    } else {
      run_ = [select = Registry<BaselineEntry>::instance().at(spec.name).select](
                 const Subject& subject, KernelState& state) { select(subject, state.pass.selected); };
    }
    state_.pass.reserve(spec.numel);
    if (!spec.is_fused) return;
    state_.residual.resize_discard(spec.numel);
    finish();
  }

  const SparseVector& selected() const override { return state_.pass.selected; }

 private:
  void select(const Subject& subject) override { run_(subject, state_); }
  void finish() override { kernels::fill(0, state_.residual.view()); }

  std::function<void(const Subject&, KernelState&)> run_;
  KernelState state_;
};

trainer::ProfiledExchange exchange_of(const SelectionSpec& spec) {
  const std::string memory = spec.is_fused ? spec.memory : "none";
  return {.sparsifier = {spec.name, spec.settings},
          .memory = {memory, Settings(Registry<compress::MemoryEntry>::instance().at(memory).settings)},
          .density = spec.density,
          .device = spec.device};
}

class MethodSelection final : public Selection {
 public:
  explicit MethodSelection(const SelectionSpec& spec)
      : Selection(spec.device), thresholds_(spec.thresholds), step_(exchange_of(spec), spec.numel) {}

  const SparseVector& selected() const override { return step_.selected(); }
  float threshold() const override { return step_.sparsifier().threshold(); }

 private:
  void select(const Subject& subject) override {
    step_.select(subject.gradient, [&](PassRequest& request) {
      const bool known = request.kind == PassRequest::Kind::kThreshold && request.threshold > 0;
      const bool sampled = request.kind == PassRequest::Kind::kSampledThreshold;
      if ((known && thresholds_ != Thresholds::kMethod) || (sampled && thresholds_ == Thresholds::kExact)) {
        request.kind = PassRequest::Kind::kThreshold;
        request.threshold = subject.exact_threshold;
      }
    });
  }
  void finish() override { step_.finish({.contributed_all = true}); }

  Thresholds thresholds_;
  trainer::LocalSelection step_;
};

}  // namespace

double Selection::run(const Subject& subject) {
  const std::uint64_t before = kernels::swept_elements();
  const double seconds = seconds_on(device_, [&] { select(subject); });
  elements_read_ = kernels::swept_elements() - before;
  finish();
  return seconds;
}

std::unique_ptr<Selection> make_selection(const SelectionSpec& spec) {
  if (spec.is_kernel) return std::make_unique<KernelSelection>(spec);
  return std::make_unique<MethodSelection>(spec);
}

std::vector<KernelName> kernel_names() {
  std::vector<KernelName> names;
  for (const Kernel& kernel : all_kernels()) names.push_back(kernel.name);
  const auto& baselines = Registry<BaselineEntry>::instance();
  for (const std::string& name : baselines.names())
    names.push_back({name, false, baselines.at(name).device, baselines.at(name).obstacle});
  return names;
}

}  // namespace dragonn::bench
