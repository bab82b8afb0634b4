// SPDX-License-Identifier: MIT
// Radix selection of a magnitude: a kernel per digit, from the leading one on. Its blocks of 256 threads count the
// digits of the values that share the digits known so far, in shared memory and then in common; the block that comes
// last finds the digit in which the rank lies. The rank stays on the GPU from digit to digit.
#include <algorithm>

#include <climits>

#include "kernels/gradient/cuda/radix_select.h"
#include "kernels/gradient/magnitude.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr unsigned kMostDigits = 4096;
static_assert(kBoundDigit.values <= kMostDigits && kDigits[0].values <= kMostDigits);

/// The fewest values that are worth a block, which adds its counts of up to 4096 digits to those of the others.
constexpr std::size_t kValuesPerBlock = 8192;

__global__ void start_kernel(RadixSelection* selection, std::uint64_t k) {
  *selection = {0.0f, 0, k, 0, 0};
}

/// Finds the digit in which the rank lies, counted from the highest: thread t holds the t-th part from the top. All
/// threads of one block must call it.
__device__ void find_digit(Digit digit, std::uint32_t* histogram, RadixSelection* selection) {
  __shared__ std::uint64_t sums[kThreads];
  const unsigned each = digit.values / kThreads;
  const unsigned top = digit.values - threadIdx.x * each;  // one above this thread's highest
  std::uint64_t own = 0;
  for (unsigned d = 1; d <= each; ++d) own += __ldcg(histogram + top - d);
  sums[threadIdx.x] = own;
  __syncthreads();
  std::uint64_t above = 0;
  for (unsigned thread = 0; thread < threadIdx.x; ++thread) above += sums[thread];
  const std::uint64_t rank = selection->rank;
  __syncthreads();
  if (above < rank && rank <= above + own) {  // true in one thread
    for (unsigned d = 1; d <= each; ++d) {
      const std::uint64_t count = __ldcg(histogram + top - d);
      if (rank <= above + count) {
        selection->key |= (top - d) << digit.shift;
        selection->rank = rank - above;
        selection->magnitude = __uint_as_float(selection->key);
        break;
      }
      above += count;
    }
  }
}

__global__ void digit_kernel(const float* values, std::size_t size, Digit digit, std::uint32_t known_bits,
                             std::uint32_t* histogram, RadixSelection* selection) {
  __shared__ std::uint32_t counts[kMostDigits];
  __shared__ bool is_last;
  for (unsigned d = threadIdx.x; d < digit.values; d += kThreads) counts[d] = 0;
  __syncthreads();
  const std::uint32_t known = selection->key;
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const std::uint32_t key = magnitude_key(values[i]);
    if ((key & known_bits) == known) atomicAdd(counts + digit.of(key), 1u);
  }
  __syncthreads();
  for (unsigned d = threadIdx.x; d < digit.values; d += kThreads) {
    if (counts[d] > 0) atomicAdd(histogram + d, counts[d]);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(&selection->blocks_done, 1u) + 1 == gridDim.x;
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  find_digit(digit, histogram, selection);
  // The next digit expects zeros here.
  __syncthreads();
  for (unsigned d = threadIdx.x; d < kMostDigits; d += kThreads) histogram[d] = 0;
  if (threadIdx.x == 0) selection->blocks_done = 0;
}

const RadixSelection* select_digits(Context& here, const float* values, std::size_t size, std::size_t k,
                                    std::span<const Digit> digits) {
  auto* const selection = static_cast<RadixSelection*>(here.device_results());
  auto* const histogram = reinterpret_cast<std::uint32_t*>(here.scratch(kMostDigits * sizeof(std::uint32_t)));
  check(cudaMemsetAsync(histogram, 0, kMostDigits * sizeof(std::uint32_t), here.stream()), "cudaMemsetAsync");
  launch(here, "start of a radix selection", 1, 1, start_kernel, selection, k);
  const auto worthwhile = static_cast<unsigned>(std::min<std::size_t>(1 + size / kValuesPerBlock, UINT_MAX));
  const unsigned blocks = std::min(worthwhile, here.blocks(size, kThreads));
  std::uint32_t known_bits = 0;
  for (const Digit& digit : digits) {
    launch(here, "k-th largest magnitude", blocks, kThreads, digit_kernel, values, size, digit, known_bits, histogram,
           selection);
    known_bits |= (digit.values - 1) << digit.shift;
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
