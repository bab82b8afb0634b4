// SPDX-License-Identifier: MIT
// The sample of acc from which a threshold is ranked: a thread per element of the sample. Its lines are those of the
// CPU.
#include "kernels/gradient/cuda/accumulate.h"
#include "kernels/gradient/cuda/gradient_sweep.h"
#include "kernels/gradient/cuda/radix_select.h"
#include "kernels/gradient/sweep_count.h"

namespace dragonn::kernels::cuda {
namespace {

/// Returns |acc| as it will be after the pass, 0 for a NaN.
template <AccumulateKind kKind>
__global__ void sample_kernel(AccumulateJob job, std::size_t numel, SamplePlan plan, float* magnitudes,
                              std::size_t size) {
  for (std::size_t place = first_element(); place < size; place += element_stride()) {
    const std::size_t i = sampled_line(numel, plan, place / kLineElements) + place % kLineElements;
    float u = kHasMomentum<kKind> ? job.momentum[i] : 0.0f;
    const float acc = accumulate_one<kKind>(job, job.gradient[i], kHasAcc<kKind> ? job.acc[i] : 0.0f, u);
    magnitudes[place] = acc == acc ? fabsf(acc) : 0.0f;
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
    launch_over(here, "sample of magnitudes", size, sample_kernel<kKind>, job, numel, plan, magnitudes, size);
  });
  return &select_kth_largest(here, magnitudes, size, plan.rank)->magnitude;
}

}  // namespace dragonn::kernels::cuda
