// SPDX-License-Identifier: MIT
// The sample of acc from which a threshold is ranked: a thread per four elements of the sample, a quarter of a line.
// Its lines are those of the CPU.
#include "kernels/gradient/cuda/accumulate.h"
#include "kernels/gradient/cuda/gradient_sweep.h"
#include "kernels/gradient/cuda/radix_select.h"
#include "kernels/gradient/sweep_count.h"

namespace dragonn::kernels::cuda {
namespace {

/// Returns |acc| as it will be after the pass, 0 for a NaN.
template <AccumulateKind kKind>
__device__ float magnitude_of(const AccumulateJob& job, float gradient, float acc, float u) {
  const float value = accumulate_one<kKind>(job, gradient, acc, u);
  return value == value ? fabsf(value) : 0.0f;
}

template <AccumulateKind kKind, bool kAligned>
__device__ Four magnitudes_of(const AccumulateJob& job) {
  const Four gradient = load_four<kAligned>(job.gradient);
  Four acc{}, u{}, result;
  if constexpr (kHasAcc<kKind>) acc = load_four<kAligned>(job.acc);
  if constexpr (kHasMomentum<kKind>) u = load_four<kAligned>(job.momentum);
  for (unsigned j = 0; j < kFour; ++j)
    result.lane[j] = magnitude_of<kKind>(job, gradient.lane[j], acc.lane[j], u.lane[j]);
  return result;
}

/// Samples; only the last line can be shorter than a multiple of four elements.
template <AccumulateKind kKind, bool kAligned>
__global__ void sample_kernel(AccumulateJob job, std::size_t numel, SamplePlan plan, float* magnitudes,
                              std::size_t size) {
  for (std::size_t place = kFour * first_element(); place < size; place += kFour * element_stride()) {
    const std::size_t i = sampled_line(numel, plan, place / kLineElements) + place % kLineElements;
    const AccumulateJob mine = job_from<kKind>(job, i);
    if (place + kFour <= size) {
      store_four<true>(magnitudes_of<kKind, kAligned>(mine), magnitudes + place);
      continue;
    }
    for (unsigned j = 0; place + j < size; ++j)
      magnitudes[place + j] = magnitude_of<kKind>(mine, mine.gradient[j], kHasAcc<kKind> ? mine.acc[j] : 0.0f,
                                                  kHasMomentum<kKind> ? mine.momentum[j] : 0.0f);
  }
}

}  // namespace

const float* sample_on_device(Context& here, const AccumulateJob& job, const SamplePlan& plan, std::size_t numel,
                              SampleScratch& scratch) {
  const std::size_t size = sample_size(numel, plan);
  count_swept(size);
  scratch.magnitudes.resize_discard(size);
  if (plan.rank > size) return nullptr;
  float* const magnitudes = scratch.magnitudes.data();
  with_kind(job, [&]<AccumulateKind kKind, bool kAligned>() {
    launch_over(here, "sample of magnitudes", (size + kFour - 1) / kFour, sample_kernel<kKind, kAligned>, job, numel,
                plan, magnitudes, size);
  });
  return &select_kth_largest(here, magnitudes, size, plan.rank)->magnitude;
}

}  // namespace dragonn::kernels::cuda
