// SPDX-License-Identifier: MIT
/// Reductions over the threads of a block, in an order that depends on the block's size alone. For .cu files.
#pragma once

#include <cstdint>

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
  constexpr unsigned kWarp = 32, kMaxWarps = 32;
  __shared__ T warps[kMaxWarps];
  for (unsigned distance = kWarp / 2; distance > 0; distance /= 2)
    value = operation(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
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

}  // namespace dragonn::kernels::cuda
