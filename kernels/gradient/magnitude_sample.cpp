// SPDX-License-Identifier: MIT
#include "kernels/gradient/magnitude_sample.h"

#include <algorithm>

#include "kernels/gradient/gradient_pass_sweep.h"
#include "kernels/operation.h"

namespace dragonn::kernels {
namespace {

std::size_t line_count(std::size_t numel) {
  return (numel + kLineElements - 1) / kLineElements;
}

float sample_cpu(View<const float> values, const SamplePlan& plan, SampleScratch& scratch) {
  return detail::sample_job({.gradient = values.data()}, plan, values.size(), scratch);
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

std::size_t sample_size(std::size_t numel, const SamplePlan& plan) {
  const std::size_t strata = sample_strata(numel, plan.stride);
  if (strata == 0) return 0;
  const std::size_t last_line = sampled_line(numel, plan, strata - 1);
  return (strata - 1) * kLineElements + std::min(kLineElements, numel - last_line);
}

constinit decltype(sample_threshold) sample_threshold("sample_threshold", sample_cpu);

}  // namespace dragonn::kernels
