// SPDX-License-Identifier: MIT
#include "kernels/gradient/gradient_pass.h"

#include <initializer_list>
#include <utility>

#include <fmt/format.h>

#include "kernels/devices.h"
#include "kernels/gradient/gradient_pass_sweep.h"
#include "kernels/gradient/hash_select.h"
#include "kernels/gradient/select.h"
#include "kernels/operation.h"

namespace dragonn::kernels {
namespace {

using detail::AccumulateJob;
using detail::AccumulateKind;

/// Checks that all are as long as the gradient, and on its device, as the result's selection is.
void check(View<const float> gradient, std::initializer_list<std::pair<const char*, View<const float>>> operands,
           const PassResult& result) {
  for (const auto& [name, view] : operands) {
    if (view.size() != gradient.size())
      throw ShapeError(fmt::format("gradient pass: {} has {} elements, expected the gradient's {}", name, view.size(),
                                   gradient.size()));
    check_same_device("gradient pass", gradient.device(), view.device());
  }
  check_same_device("gradient pass", gradient.device(), result.device());
}

void pass_cpu(const AccumulateJob& job, const PassRequest& request, std::size_t numel, PassResult& result) {
  if (request.kind == PassRequest::Kind::kNone || request.kind == PassRequest::Kind::kMoments) {
    result.selected.clear();
    result.non_finite = request.kind == PassRequest::Kind::kNone ? detail::sweep(job, numel)
                                                                 : detail::sweep_moments(job, numel, result.moments);
    return;
  }
  result.threshold = request.kind == PassRequest::Kind::kSampledThreshold
                         ? detail::sample_job(job, request.sample, numel, result.sample)
                         : request.threshold;
  result.non_finite =
      detail::sweep_select(job, {0, numel}, {request.begin, request.end}, result.threshold, result.selected);
}

/// Returns where a pass keeps what it overwrites of an array; null: nowhere.
float* kept(float* array, std::size_t numel, const PassRequest& request, Overwritten& overwritten) {
  overwritten.place = {};
  if (!request.revertible || array == nullptr) return nullptr;
  overwritten.place = View<float>(array, numel, overwritten.before.device());
  overwritten.before.resize_discard(numel);
  return overwritten.before.data();
}

void run_pass(AccumulateJob job, const PassRequest& request, std::size_t numel, PassResult& result) {
  DRAGONN_CHECK(numel < kEmptySlot, "a gradient of {} elements; a bucket holds fewer than {}", numel, kEmptySlot);
  DRAGONN_CHECK(!selects(request) || (request.begin <= request.end && request.end <= numel),
                "a selection in [{}, {}) of {} elements", request.begin, request.end, numel);
  if (request.hash.scratch != nullptr)
    check_same_device("gradient pass", result.device(), request.hash.scratch->table.device());
  result.request = request;
  result.unfinished = nullptr;
  job.acc_before = kept(job.acc, numel, request, result.acc);
  job.state_before = kept(job.state, numel, request, result.state);
  detail::gradient_pass_rows(job, request, numel, result);
}

}  // namespace

constinit decltype(detail::gradient_pass_rows) detail::gradient_pass_rows("gradient pass", pass_cpu);
constinit decltype(detail::finish_pass_rows) detail::finish_pass_rows("end of a gradient pass", [](PassResult&) {});
void PassResult::reserve(std::size_t numel) {
  reserve_selection(selected, numel);
  sample.reserve(numel);
}

void accumulate_residual(const PassRequest& request, View<const float> gradient, const ResidualRule& rule,
                         View<float> residual, PassResult& result) {
  check(gradient, {{"the residual", residual}}, result);
  const AccumulateJob job{.kind = AccumulateKind::kResidual,
                          .gradient = gradient.data(),
                          .acc = residual.data(),
                          .scale = rule.scale,
                          .factor = rule.decay};
  run_pass(job, request, gradient.size(), result);
}

void accumulate_momentum(const PassRequest& request, View<const float> gradient, const MomentumRule& rule,
                         View<float> u, View<float> v, PassResult& result) {
  check(gradient, {{"the momentum", u}, {"the velocity", v}}, result);
  const AccumulateJob job{.kind = rule.nesterov ? AccumulateKind::kNesterov : AccumulateKind::kHeavyBall,
                          .gradient = gradient.data(),
                          .acc = v.data(),
                          .state = u.data(),
                          .scale = rule.scale,
                          .factor = rule.momentum};
  run_pass(job, request, gradient.size(), result);
}

void accumulate_filtered(const PassRequest& request, View<const float> gradient, const FilterRule& rule,
                         View<const float> estimate, View<float> state, View<float> acc, PassResult& result) {
  check(gradient, {{"the state", state}, {"the accumulator", acc}}, result);
  if (!estimate.empty()) check(gradient, {{"the estimate", estimate}}, result);
  const AccumulateJob job{.kind = estimate.empty() ? AccumulateKind::kFiltered : AccumulateKind::kFilteredDifference,
                          .gradient = gradient.data(),
                          .acc = acc.data(),
                          .state = state.data(),
                          .estimate = estimate.data(),
                          .scale = rule.scale,
                          .factor = rule.keep,
                          .take = rule.take,
                          .out = rule.out};
  run_pass(job, request, gradient.size(), result);
}

void accumulate_difference(const PassRequest& request, View<const float> gradient, float scale,
                           View<const float> estimate, View<float> acc, PassResult& result) {
  check(gradient, {{"the estimate", estimate}, {"the accumulator", acc}}, result);
  const AccumulateJob job{.kind = AccumulateKind::kDifference,
                          .gradient = gradient.data(),
                          .acc = acc.data(),
                          .estimate = estimate.data(),
                          .scale = scale};
  run_pass(job, request, gradient.size(), result);
}

void accumulate_momentum_difference(const PassRequest& request, View<const float> gradient, const MomentumRule& rule,
                                    View<const float> estimate, View<float> u, View<float> acc, PassResult& result) {
  check(gradient, {{"the estimate", estimate}, {"the momentum", u}, {"the accumulator", acc}}, result);
  const AccumulateJob job{.kind = AccumulateKind::kMomentumDifference,
                          .gradient = gradient.data(),
                          .acc = acc.data(),
                          .state = u.data(),
                          .estimate = estimate.data(),
                          .scale = rule.scale,
                          .factor = rule.momentum,
                          .take = rule.nesterov ? 1.0f : 0.0f,
                          .out = rule.nesterov ? rule.momentum : 1.0f};
  run_pass(job, request, gradient.size(), result);
}

void accumulate_scaled(const PassRequest& request, View<const float> gradient, float scale, View<float> acc,
                       PassResult& result) {
  check(gradient, {{"the accumulator", acc}}, result);
  const AccumulateJob job{
      .kind = AccumulateKind::kScale, .gradient = gradient.data(), .acc = acc.data(), .scale = scale};
  run_pass(job, request, gradient.size(), result);
}

void examine(const PassRequest& request, View<const float> acc, PassResult& result) {
  check(acc, {}, result);
  const AccumulateJob job{.gradient = acc.data()};
  run_pass(job, request, acc.size(), result);
}

void finish_pass(PassResult& result) {
  if (result.unfinished != nullptr) detail::finish_pass_rows(result);
  result.unfinished = nullptr;
}

void revert_pass(PassResult& result) {
  for (Overwritten* const array : {&result.acc, &result.state}) {
    if (!array->place.empty()) transfer(std::as_const(array->before).view(), array->place);
    array->place = {};
  }
}

static thread_local std::uint64_t swept = 0;

std::uint64_t swept_elements() {
  return swept;
}

void count_swept(std::size_t elements) {
  swept += elements;
}

}  // namespace dragonn::kernels
