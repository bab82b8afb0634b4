// SPDX-License-Identifier: MIT
// Radix selection of a magnitude: a kernel per digit, from the leading one on. Its blocks of 256 threads count the
// digits of the values that share the digits known so far, in shared memory and then in common, with four 16-byte loads
// of a thread under way at once; the block that comes last finds the digit in which the rank lies. The rank stays on
// the GPU from digit to digit, so that nothing but these kernels and the clearing of their counts is started.
#include "kernels/gradient/cuda/accumulate.h"
#include "kernels/gradient/cuda/radix_select.h"
#include "kernels/gradient/magnitude.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr unsigned kMaxDigits = 4096;
static_assert(kBoundDigit.values <= kMaxDigits && kDigits[0].values <= kMaxDigits);

/// The counts of a digit's values, of all blocks. They are zeros at the start of every digit.
struct DigitCounts {
  std::uint32_t histogram[kMaxDigits];
  std::uint32_t blocks_done;
};

/// A digit to find.
struct DigitStep {
  Digit digit;
  std::uint32_t known_bits;  ///< of the digits before
  std::uint32_t rank;        ///< wanted of all values, for the first digit; the others find it in the selection
};

/// Returns the sum of `mine` over the threads of the block before this one. All threads must call it.
__device__ std::uint32_t sum_before(std::uint32_t mine) {
  __shared__ std::uint32_t warps[kWarps];
  std::uint32_t sum = mine;
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const std::uint32_t other = __shfl_up_sync(kAllLanes, sum, step);
    if (lane_id() >= step) sum += other;
  }
  if (lane_id() == kWarp - 1) warps[warp_id()] = sum;
  __syncthreads();
  std::uint32_t before = sum - mine;
  for (unsigned warp = 0; warp < kWarps; ++warp) before += warp < warp_id() ? warps[warp] : 0;
  return before;
}

/// Finds the digit in which the rank lies, counted from the highest: thread t holds the t-th part from the top. All
/// threads of one block must call it, with the same rank.
__device__ void find_digit(const Digit& digit, const std::uint32_t* histogram, std::uint32_t known, std::uint32_t rank,
                           RadixSelection* selection) {
  const unsigned each = digit.values / kThreads;
  const unsigned top = digit.values - threadIdx.x * each;  // one above this thread's highest
  std::uint32_t own = 0;
  for (unsigned d = 1; d <= each; ++d) own += __ldcg(histogram + top - d);
  std::uint32_t above = sum_before(own);
  if (above >= rank || rank > above + own) return;  // all but one thread
  for (unsigned d = 1; d <= each; ++d) {
    const std::uint32_t count = __ldcg(histogram + top - d);
    if (rank <= above + count) {
      const std::uint32_t key = known | (top - d) << digit.shift;
      *selection = {__uint_as_float(key), key, rank - above};
      return;
    }
    above += count;
  }
}

template <bool kAligned>
__global__ void __launch_bounds__(kThreads)
    digit_kernel(const float* values, std::size_t size, DigitStep step, DigitCounts* all, RadixSelection* selection) {
  __shared__ std::uint32_t counts[kMaxDigits];
  __shared__ bool is_last;
  const bool is_first = step.known_bits == 0;
  const std::uint32_t known = is_first ? 0 : selection->key, rank = is_first ? step.rank : selection->rank;
  for (unsigned d = threadIdx.x; d < step.digit.values; d += kThreads) counts[d] = 0;
  __syncthreads();
  for_each_value<kAligned>(values, size, [&](float value) {
    const std::uint32_t key = magnitude_key(value);
    if ((key & step.known_bits) == known) atomicAdd(counts + step.digit.of(key), 1u);
  });
  __syncthreads();
  for (unsigned d = threadIdx.x; d < step.digit.values; d += kThreads) {
    if (counts[d] > 0) atomicAdd(all->histogram + d, counts[d]);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(&all->blocks_done, 1u) + 1 == gridDim.x;
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  find_digit(step.digit, all->histogram, known, rank, selection);
  __syncthreads();
  for (unsigned d = threadIdx.x; d < step.digit.values; d += kThreads) all->histogram[d] = 0;
  if (threadIdx.x == 0) all->blocks_done = 0;
}

const RadixSelection* select_digits(Context& here, const float* values, std::size_t size, std::size_t k,
                                    std::span<const Digit> digits) {
  auto* const selection = static_cast<RadixSelection*>(here.device_results());
  auto* const counts = reinterpret_cast<DigitCounts*>(here.scratch(sizeof(DigitCounts)));
  check(cudaMemsetAsync(counts, 0, sizeof(DigitCounts), here.stream()), "cudaMemsetAsync");
  const unsigned blocks = here.blocks((size + kTileElements - 1) / kTileElements, 1);
  DigitStep step{.digit = {}, .known_bits = 0, .rank = static_cast<std::uint32_t>(k)};
  const AccumulateJob job{.gradient = values};
  for (const Digit& digit : digits) {
    step.digit = digit;
    with_alignment<AccumulateKind::kExamine>(job, [&]<AccumulateKind, bool kAligned>() {
      launch(here, "k-th largest magnitude", blocks, kThreads, digit_kernel<kAligned>, values, size, step, counts,
             selection);
    });
    step.known_bits |= (digit.values - 1) << digit.shift;
  }
  return selection;
}

}  // namespace

const RadixSelection* select_kth_largest(Context& here, const float* values, std::size_t size, std::size_t k) {
  return select_digits(here, values, size, k, kDigits);
}

const RadixSelection* select_lower_bound(Context& here, const float* values, std::size_t size, std::size_t k) {
  return select_digits(here, values, size, k, {&kBoundDigit, 1});
}

}  // namespace dragonn::kernels::cuda
