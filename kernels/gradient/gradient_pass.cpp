// SPDX-License-Identifier: MIT
#include "kernels/gradient/gradient_pass.h"

#include <fmt/format.h>

#include "kernels/gradient/gradient_pass_sweep.h"
#include "kernels/gradient/gradient_pass_table.h"
#include "kernels/gradient/hash_select.h"
#include "kernels/gradient/select.h"
#include "kernels/same_device.h"

namespace dragonn::kernels {
namespace {

using detail::AccumulateJob;
using detail::AccumulateKind;

void check_length(const char* what, std::size_t seen, std::size_t expected) {
  if (seen != expected) {
    throw ShapeError(
        fmt::format("gradient pass: {} has {} elements, expected the gradient's {}", what, seen, expected));
  }
}

void check_device(const View<const float>& gradient, const Device& other) {
  check_same_device("gradient pass", gradient.device(), other);
}

void pass_cpu(const AccumulateJob& job, const PassRequest& request, std::size_t numel, PassResult& result) {
  if (request.kind == PassRequest::Kind::kNone || request.kind == PassRequest::Kind::kMoments) {
    result.selected.clear();
    result.non_finite = request.kind == PassRequest::Kind::kNone
                            ? detail::sweep(job, {0, numel})
                            : detail::sweep_moments(job, {0, numel}, result.moments);
    return;
  }
  result.threshold = request.kind == PassRequest::Kind::kSampledThreshold
                         ? detail::sample_job(job, request.sample, numel, result.sample)
                         : request.threshold;
  result.non_finite =
      detail::sweep_select(job, {0, numel}, {request.begin, request.end}, result.threshold, result.selected);
}

void run_pass(const AccumulateJob& job, const PassRequest& request, std::size_t numel, PassResult& result) {
  DRAGONN_CHECK(numel < kEmptySlot, "a gradient of {} elements; a bucket holds fewer than {}", numel, kEmptySlot);
  DRAGONN_CHECK(!selects(request) || (request.begin <= request.end && request.end <= numel),
                "a selection in [{}, {}) of {} elements", request.begin, request.end, numel);
  if (request.hash.scratch != nullptr)
    check_same_device("gradient pass", result.selected.device(), request.hash.scratch->table.memory().device());
  result.request = request;
  detail::gradient_pass_table().at(result.selected.device())(job, request, numel, result);
}

}  // namespace

detail::GradientPassTable& detail::gradient_pass_table() {
  static GradientPassTable table("gradient pass", pass_cpu);
  return table;
}

void PassResult::reserve(std::size_t numel) {
  reserve_selection(selected, numel);
  sample.reserve(numel);
}

void accumulate_residual(const PassRequest& request, View<const float> gradient, const ResidualRule& rule,
                         View<float> residual, PassResult& result) {
  check_length("the residual", residual.size(), gradient.size());
  check_device(gradient, residual.device());
  check_device(gradient, result.selected.device());
  const AccumulateJob job{.kind = AccumulateKind::kResidual,
                          .gradient = gradient.data(),
                          .acc = residual.data(),
                          .scale = rule.scale,
                          .factor = rule.decay};
  run_pass(job, request, gradient.size(), result);
}

void accumulate_momentum(const PassRequest& request, View<const float> gradient, const MomentumRule& rule,
                         View<float> u, View<float> v, PassResult& result) {
  check_length("the momentum", u.size(), gradient.size());
  check_length("the velocity", v.size(), gradient.size());
  check_device(gradient, u.device());
  check_device(gradient, v.device());
  check_device(gradient, result.selected.device());
  const AccumulateJob job{.kind = rule.nesterov ? AccumulateKind::kNesterov : AccumulateKind::kHeavyBall,
                          .gradient = gradient.data(),
                          .acc = v.data(),
                          .momentum = u.data(),
                          .scale = rule.scale,
                          .factor = rule.momentum};
  run_pass(job, request, gradient.size(), result);
}

void accumulate_scaled(const PassRequest& request, View<const float> gradient, float scale, View<float> acc,
                       PassResult& result) {
  check_length("the accumulator", acc.size(), gradient.size());
  check_device(gradient, acc.device());
  check_device(gradient, result.selected.device());
  const AccumulateJob job{
      .kind = AccumulateKind::kScale, .gradient = gradient.data(), .acc = acc.data(), .scale = scale};
  run_pass(job, request, gradient.size(), result);
}

void examine(const PassRequest& request, View<const float> acc, PassResult& result) {
  check_device(acc, result.selected.device());
  const AccumulateJob job{.gradient = acc.data()};
  run_pass(job, request, acc.size(), result);
}

}  // namespace dragonn::kernels
