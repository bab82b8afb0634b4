// SPDX-License-Identifier: MIT
#include <cmath>

#include "kernels/gradient/cuda/gradient_sweep.h"
#include "kernels/gradient/gradient_pass_sweep.h"
#include "kernels/gradient/hash_select.h"
#include "kernels/gradient/select.h"
#include "kernels/gradient/sweep_count.h"

namespace dragonn::kernels::cuda {
namespace {

using detail::AccumulateJob;

void pass(const AccumulateJob& job, const PassRequest& request, std::size_t numel, PassResult& result) {
  Context& here = context(result.selected.device());
  count_swept(numel);
  if (request.kind == PassRequest::Kind::kNone) {
    result.selected.clear();
    result.non_finite = sweep(here, job, numel);
  } else if (request.kind == PassRequest::Kind::kMoments) {
    result.selected.clear();
    result.moments = sweep_moments(here, job, numel);
    result.non_finite = !std::isfinite(result.moments.largest);
  } else {
    Threshold threshold{.value = request.threshold};
    if (request.kind == PassRequest::Kind::kSampledThreshold)
      threshold = {.place = sample_on_device(here, job, request.sample, numel, result.sample)};
    const SweepSelection selection{{request.begin, request.end},
                                   threshold,
                                   empty_slots(here, request.hash),
                                   request.hash.scratch == nullptr ? nullptr : &request.hash.scratch->holders};
    const SweepOutcome outcome = sweep_select(here, job, {0, numel}, selection, result.selected);
    result.threshold = outcome.threshold;
    result.non_finite = outcome.non_finite;
  }
}

void select(View<const float> values, float threshold, std::size_t begin, std::size_t end, SparseVector& selected) {
  count_swept(end - begin);
  const Range range{begin, end};
  sweep_select(context(values.device()), {.gradient = values.data()}, range, {range, {.value = threshold}}, selected);
}

Moments moments(View<const float> values) {
  count_swept(values.size());
  return sweep_moments(context(values.device()), {.gradient = values.data()}, values.size());
}

float sample(View<const float> values, const SamplePlan& plan, SampleScratch& scratch) {
  Context& here = context(values.device());
  if (sample_on_device(here, {.gradient = values.data()}, plan, values.size(), scratch) == nullptr) return 0;
  return here.read_result<float>();
}

/// The pass has found the hits that stay.
void hash_select(const SparseVector& /*hits*/, const HashChoice& choice, SparseVector& kept) {
  copy_entries(choice.scratch->holders, kept);
}

[[maybe_unused]] const bool registered = kernels::detail::gradient_pass_rows.add(DeviceType::kCuda, pass) &&
                                         kernels::select_threshold_rows.add(DeviceType::kCuda, select) &&
                                         kernels::magnitude_moments.add(DeviceType::kCuda, moments) &&
                                         kernels::sample_threshold.add(DeviceType::kCuda, sample) &&
                                         kernels::hash_select.add(DeviceType::kCuda, hash_select);

}  // namespace
}  // namespace dragonn::kernels::cuda
