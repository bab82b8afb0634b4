// SPDX-License-Identifier: MIT
#include "kernels/magnitude_sample.h"

#include <algorithm>

#include "core/rng.h"
#include "kernels/gradient_pass_sweep.h"

namespace dragonn::kernels {
namespace {

std::size_t line_count(std::size_t numel) {
  return (numel + kLineElements - 1) / kLineElements;
}

}  // namespace

void SampleScratch::reserve(std::size_t numel) {
  if (!magnitudes.device().is_cpu()) return;
  magnitudes.resize_discard(numel);
  ranking.reserve(numel);
}

std::size_t sample_strata(std::size_t numel, std::size_t stride) {
  return (line_count(numel) + stride - 1) / stride;
}

std::size_t sampled_line(std::size_t numel, const SamplePlan& plan, std::size_t stratum) {
  __extension__ using Wide = unsigned __int128;
  const std::size_t first = stratum * plan.stride;
  const std::size_t choices = std::min(plan.stride, line_count(numel) - first);
  const auto choice = static_cast<std::size_t>(static_cast<Wide>(mix64(plan.key + stratum)) * choices >> 64);
  return (first + choice) * kLineElements;
}

std::size_t sample_size(std::size_t numel, const SamplePlan& plan) {
  const std::size_t strata = sample_strata(numel, plan.stride);
  if (strata == 0) return 0;
  const std::size_t last_line = sampled_line(numel, plan, strata - 1);
  return (strata - 1) * kLineElements + std::min(kLineElements, numel - last_line);
}

float sample_threshold(View<const float> values, const SamplePlan& plan, SampleScratch& scratch) {
  const detail::AccumulateJob job{.gradient = values.host().data()};
  return detail::sample_job(job, plan, values.size(), scratch);
}

}  // namespace dragonn::kernels
