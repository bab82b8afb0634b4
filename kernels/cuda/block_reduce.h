// SPDX-License-Identifier: MIT
/// Reductions in a fixed order, with the same bits at every call: over the threads of a block, in an order that depends
/// on the block's size alone; and over an array, in one that depends neither on the GPU nor on timing. For .cu files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime.h"

namespace dragonn::kernels::cuda {

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Maximum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

/// Combines the values of all threads; every thread gets the result. Blocks are whole warps in one dimension, and all
/// their threads must call this.
template <class T, class Operation>
__device__ T block_reduce(T value, Operation operation) {
  constexpr unsigned kMaxWarps = 32;
  __shared__ T warps[kMaxWarps];
  for (unsigned distance = kWarp / 2; distance > 0; distance /= 2)
    value = operation(value, __shfl_xor_sync(kAllLanes, value, distance));
  __syncthreads();  // a call before this one may still read
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  T result = warps[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) result = operation(result, warps[warp]);
  return result;
}

/// Returns a number that orders logits as `<` does, and equal ones by the lower position; 0 for a NaN, which is never
/// largest.
__device__ inline unsigned long long ranked(float value, std::uint32_t position) {
  if (value != value) return 0;
  const std::uint32_t bits = __float_as_uint(value + 0.0f);  // -0 equals 0
  const std::uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(ordered) << 32 | (0xFFFFFFFFu - position);
}
__device__ inline std::uint32_t ranked_position(unsigned long long rank) {
  return 0xFFFFFFFFu - static_cast<std::uint32_t>(rank);
}

/// Returns the threads of a block that works on one row: whole warps, no more than the row has work for.
inline unsigned row_threads(std::size_t columns) {
  unsigned threads = 32;
  while (threads < 256 && threads < columns) threads *= 2;
  return threads;
}

/// The largest number of blocks of a sum, whatever the GPU: the partial sums depend on it.
inline constexpr unsigned kSumBlocks = 1024;

/// Returns the blocks of a sum over `count` elements, `per_block` at a time.
inline unsigned sum_blocks(std::size_t count, std::size_t per_block) {
  const std::size_t needed = (count + per_block - 1) / per_block;
  return static_cast<unsigned>(needed < kSumBlocks ? needed : kSumBlocks);
}

/// The memory of a sum. `Sums` is a struct of 8-byte words that starts as zeros (or what stands for them), with
/// `__device__ void add(const Sums&)`.
template <class Sums>
struct OrderedSum {
  Sums total;
  std::uint32_t blocks_done;
  Sums parts[kSumBlocks];
};

/// Returns the sum of `mine` over the block's threads, by a tree of fixed shape. All threads must call it; thread 0 may
/// use the result.
template <class Sums>
__device__ Sums sum_of_block(const Sums& mine) {
  __shared__ Sums sums[kThreads];
  __syncthreads();
  sums[threadIdx.x] = mine;
  for (unsigned step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) sums[threadIdx.x].add(sums[threadIdx.x + step]);
  }
  __syncthreads();
  return sums[0];
}

/// Loads a part that another block wrote, past the first-level cache, which may hold an old value.
template <class Sums>
__device__ Sums load_part(const Sums* part) {
  static_assert(sizeof(Sums) % sizeof(unsigned long long) == 0);
  constexpr unsigned kWords = sizeof(Sums) / sizeof(unsigned long long);
  union {
    unsigned long long words[kWords];
    Sums sums;
  } copy{};
  for (unsigned word = 0; word < kWords; ++word)
    copy.words[word] = __ldcg(reinterpret_cast<const unsigned long long*>(part) + word);
  return copy.sums;
}

/// Adds up the values of all threads of all blocks: the block that comes last adds the parts in their order.
template <class Sums>
__device__ void finish_sum(const Sums& mine, OrderedSum<Sums>* sum) {
  const Sums part = sum_of_block(mine);
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    sum->parts[blockIdx.x] = part;
    __threadfence();
    is_last = atomicAdd(&sum->blocks_done, 1u) + 1 == gridDim.x;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  Sums all;
  for (unsigned block = threadIdx.x; block < gridDim.x; block += kThreads) all.add(load_part(sum->parts + block));
  const Sums total = sum_of_block(all);
  if (threadIdx.x == 0) sum->total = total;
}

/// Calls start(sum), which launches a kernel that calls finish_sum(), and starts to copy the total to page-locked
/// memory of the host.
template <class Sums, class Start>
void start_ordered_sum(Context& here, const Start& start, void* total) {
  auto* const sum = reinterpret_cast<OrderedSum<Sums>*>(here.scratch(sizeof(OrderedSum<Sums>)));
  check(cudaMemsetAsync(&sum->blocks_done, 0, sizeof sum->blocks_done, here.stream()), "cudaMemsetAsync");
  start(sum);
  check(cudaMemcpyAsync(total, &sum->total, sizeof(Sums), cudaMemcpyDeviceToHost, here.stream()), "cudaMemcpyAsync");
}

/// Returns the total of such a sum. Waits.
template <class Sums, class Start>
Sums ordered_sum(Context& here, const Start& start) {
  start_ordered_sum<Sums>(here, start, here.host_results());
  here.synchronize();
  return *static_cast<const Sums*>(here.host_results());
}

}  // namespace dragonn::kernels::cuda
