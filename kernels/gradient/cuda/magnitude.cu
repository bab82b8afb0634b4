// SPDX-License-Identifier: MIT
// Ranks of magnitudes, and the entries of largest magnitude: the radix selection leaves the k-th magnitude and the
// number of its ties that belong to the k largest on the GPU, where the compaction that follows finds them.
#include "kernels/gradient/cuda/accumulate.h"
#include "kernels/gradient/cuda/compact_entries.h"
#include "kernels/gradient/cuda/gradient_sweep.h"
#include "kernels/gradient/cuda/radix_select.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/magnitude.h"

namespace dragonn::kernels::cuda {
namespace {

float kth_largest(View<const float> values, std::size_t k, MagnitudeScratch& /*scratch*/) {
  Context& here = context(values.device());
  select_kth_largest(here, values.data(), values.size(), k);
  return here.read_result<RadixSelection>().magnitude;
}

float lower_bound(View<const float> values, std::size_t k, MagnitudeScratch& /*scratch*/) {
  Context& here = context(values.device());
  select_lower_bound(here, values.data(), values.size(), k);
  return here.read_result<RadixSelection>().magnitude;
}

/// Keeps entries above the k-th magnitude and, of its ties, those of lowest index.
struct AmongLargest {
  const RadixSelection* selection;
  __device__ Verdict operator()(std::uint32_t /*index*/, float value) const {
    const float magnitude = fabsf(value);
    if (magnitude == selection->magnitude) return Verdict::kTie;
    return magnitude > selection->magnitude ? Verdict::kKeep : Verdict::kDrop;
  }
  __device__ std::uint32_t max_ties() const { return selection->rank; }
};

/// Finds the k-th magnitude and starts the compaction.
CompactionMemory start_choice(Context& here, const SparseVector& entries, std::size_t k,
                              const RadixSelection** selection, SparseVector& kept) {
  // Ties are counted in 30 bits (look_back.h).
  constexpr std::size_t kMaxEntries = std::size_t{1} << 30;
  if (entries.size() >= kMaxEntries)
    throw DeviceError(
        fmt::format("keep_largest: {} entries on a GPU, expected fewer than {}", entries.size(), kMaxEntries));
  *selection = select_kth_largest(here, entries.values.data(), entries.size(), k);
  return start_compaction(here, entries, AmongLargest{*selection}, kept);
}

float keep_largest_on_gpu(const SparseVector& entries, std::size_t k, MagnitudeScratch& /*scratch*/,
                          SparseVector& kept) {
  Context& here = context(entries.device());
  const RadixSelection* selection = nullptr;
  const CompactionMemory compaction = start_choice(here, entries, k, &selection, kept);
  // Both results come with one wait: the selection's is read beside the compaction's.
  auto* const magnitude = static_cast<float*>(here.host_results()) + Context::kResultBytes / sizeof(float) - 1;
  check(cudaMemcpyAsync(magnitude, &selection->magnitude, sizeof(float), cudaMemcpyDeviceToHost, here.stream()),
        "cudaMemcpyAsync");
  kept.truncate(read(here, compaction).count);
  return *magnitude;
}

void start_keep_largest_on_gpu(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch,
                               SparseVector& kept) {
  Context& here = context(entries.device());
  const RadixSelection* selection = nullptr;
  start_choice(here, entries, k, &selection, kept);
  kept.truncate(k);
  check(cudaMemcpyAsync(scratch.smallest.data(), &selection->magnitude, sizeof(float), cudaMemcpyDeviceToHost,
                        here.stream()),
        "cudaMemcpyAsync");
}

[[maybe_unused]] const bool registered =
    kernels::kth_largest_magnitude.add(DeviceType::kCuda, kth_largest) &&
    kernels::magnitude_lower_bound.add(DeviceType::kCuda, lower_bound) &&
    kernels::keep_largest_rows.add(DeviceType::kCuda, keep_largest_on_gpu) &&
    kernels::start_keep_largest_rows.add(DeviceType::kCuda, start_keep_largest_on_gpu);

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
