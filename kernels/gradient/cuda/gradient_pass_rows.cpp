// SPDX-License-Identifier: MIT
#include <cmath>
#include <new>

#include "kernels/gradient/cuda/gradient_sweep.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/gradient_pass_sweep.h"
#include "kernels/gradient/hash_select.h"
#include "kernels/gradient/select.h"

namespace dragonn::kernels::cuda {
namespace {

using detail::AccumulateJob;

/// Returns what a request selects, with these slots.
SweepSelection selection_of(const PassRequest& request, const Threshold& threshold, const Slots& slots) {
  return {{request.begin, request.end},
          threshold,
          slots,
          request.hash.scratch == nullptr ? nullptr : &request.hash.scratch->holders};
}

void start_pass(Context& here, const AccumulateJob& job, const PassRequest& request, std::size_t numel,
                PassResult& result, SweepReport& report) {
  if (request.kind == PassRequest::Kind::kNone) return start_sweep(here, job, numel, report);
  if (request.kind == PassRequest::Kind::kMoments) return start_moments(here, job, numel, report);
  Threshold threshold{.value = request.threshold};
  if (request.kind == PassRequest::Kind::kSampledThreshold)
    threshold = {.place = sample_on_device(here, job, request.sample, numel, result.sample)};
  start_select(here, job, {0, numel}, selection_of(request, threshold, empty_slots(here, request.hash)),
               result.selected, report);
}

/// Sets the result of a pass from its report, after a wait.
void end_pass(Context& here, const float* acc, const SweepReport& report, PassResult& result) {
  const PassRequest& request = result.request;
  if (selects(request)) {
    const SweepOutcome outcome =
        finish_select(here, acc, selection_of(request, {}, filled_slots(request.hash)), result.selected, report);
    result.threshold = outcome.threshold;
    result.non_finite = outcome.non_finite;
    return;
  }
  result.selected.clear();
  if (request.kind == PassRequest::Kind::kMoments) result.moments = moments_of(report.moments);
  result.non_finite = request.kind == PassRequest::Kind::kMoments ? !std::isfinite(result.moments.largest)
                                                                  : report.hits.non_finite != 0;
}

/// Returns the report of a deferred pass.
SweepReport& report_of(PassResult& result) {
  return *reinterpret_cast<SweepReport*>(result.report.data());
}

void pass(const AccumulateJob& job, const PassRequest& request, std::size_t numel, PassResult& result) {
  Context& here = context(result.device());
  count_swept(numel);
  if (request.deferred) {
    result.report.resize_discard(sizeof(SweepReport));
    start_pass(here, job, request, numel, result, *new (result.report.data()) SweepReport);
    result.unfinished = stored_acc(job);
    return;
  }
  start_pass(here, job, request, numel, result, here_and_now(here));
  here.synchronize();
  end_pass(here, stored_acc(job), here_and_now(here), result);
}

void finish(PassResult& result) {
  end_pass(context(result.device()), result.unfinished, report_of(result), result);
}

void select(View<const float> values, float threshold, std::size_t begin, std::size_t end, SparseVector& selected) {
  count_swept(end - begin);
  const Range range{begin, end};
  sweep_select(context(values.device()), {.gradient = values.data()}, range, {range, {.value = threshold}}, selected);
}

Moments moments(View<const float> values) {
  count_swept(values.size());
  Context& here = context(values.device());
  start_moments(here, {.gradient = values.data()}, values.size(), here_and_now(here));
  here.synchronize();
  return moments_of(here_and_now(here).moments);
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
                                         kernels::detail::finish_pass_rows.add(DeviceType::kCuda, finish) &&
                                         kernels::select_threshold_rows.add(DeviceType::kCuda, select) &&
                                         kernels::magnitude_moments.add(DeviceType::kCuda, moments) &&
                                         kernels::sample_threshold.add(DeviceType::kCuda, sample) &&
                                         kernels::hash_select.add(DeviceType::kCuda, hash_select);

}  // namespace
}  // namespace dragonn::kernels::cuda
