// SPDX-License-Identifier: MIT
/// Device code: the names that nvcc gives .cu files by itself, for the emulation. It is included ahead of each of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <cuda_runtime_api.h>
#include <type_traits>
#include <vector_functions.h>

#include "tests/cuda_emulation/blocks.h"
#include "tests/cuda_emulation/stream.h"

#define DRAGONN_DEVICE_CODE

// CUDA's headers define these for any compiler, with attributes that only nvcc knows.
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

#define threadIdx ::dragonn::emulation::place.thread
#define blockIdx ::dragonn::emulation::place.block
#define blockDim ::dragonn::emulation::place.block_size
#define gridDim ::dragonn::emulation::place.grid_size

using std::isfinite;
using std::max;
using std::min;

namespace dragonn::emulation {

/// Exchanges values in a warp: every thread hands over `value`; the result is combine(values of the warp, by lane).
template <class T, class Combine>
auto exchange(const T& value, const Combine& combine) {
  static_assert(sizeof(T) <= sizeof(Slot));
  const unsigned number = thread_number(), first = number / kWarpThreads * kWarpThreads;
  Slots& slots = next_slots();
  std::memcpy(&slots[number], &value, sizeof(T));
  wait_for_warp();
  const auto of_lane = [&slots, first](unsigned lane) {
    T other;
    std::memcpy(&other, &slots[first + lane], sizeof(T));
    return other;
  };
  return combine(of_lane, number - first);
}

template <class T, class Combine>
T replace(T* target, const Combine& combine) {
  const T old = *target;
  *target = combine(old);
  return old;
}

}  // namespace dragonn::emulation

inline void __syncthreads() {
  dragonn::emulation::wait_for_block();
}
inline void __syncwarp(unsigned = 0) {
  dragonn::emulation::wait_for_warp();
}
inline void __threadfence() {}

inline int __syncthreads_count(int predicate) {
  using namespace dragonn::emulation;
  votes[thread_number()] = predicate;
  wait_for_block();
  int count = 0;
  for (unsigned t = 0; t < blockDim.x * blockDim.y; ++t) count += votes[t] != 0 ? 1 : 0;
  wait_for_block();
  return count;
}
inline int __syncthreads_or(int predicate) {
  return __syncthreads_count(predicate) > 0;
}

template <class T>
T __shfl_xor_sync(unsigned, T value, unsigned mask) {
  return dragonn::emulation::exchange(value, [&](const auto& of, unsigned lane) { return of(lane ^ mask); });
}
template <class T>
T __shfl_sync(unsigned, T value, unsigned source, unsigned width = 32) {
  return dragonn::emulation::exchange(
      value, [&](const auto& of, unsigned lane) { return of(lane / width * width + source % width); });
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned distance) {
  return dragonn::emulation::exchange(
      value, [&](const auto& of, unsigned lane) { return of(lane >= distance ? lane - distance : lane); });
}
inline unsigned __ballot_sync(unsigned, bool predicate) {
  return dragonn::emulation::exchange(predicate, [](const auto& of, unsigned) {
    unsigned ballot = 0;
    for (unsigned lane = 0; lane < 32; ++lane) ballot |= of(lane) ? 1u << lane : 0u;
    return ballot;
  });
}
inline int __any_sync(unsigned mask, bool predicate) {
  return __ballot_sync(mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, bool predicate) {
  return __ballot_sync(mask, !predicate) == 0;
}
inline unsigned __reduce_add_sync(unsigned, unsigned value) {
  return dragonn::emulation::exchange(value, [](const auto& of, unsigned) {
    unsigned sum = 0;
    for (unsigned lane = 0; lane < 32; ++lane) sum += of(lane);
    return sum;
  });
}

inline unsigned __reduce_or_sync(unsigned, unsigned value) {
  return dragonn::emulation::exchange(value, [](const auto& of, unsigned) {
    unsigned bits = 0;
    for (unsigned lane = 0; lane < 32; ++lane) bits |= of(lane);
    return bits;
  });
}

template <class T>
T atomicAdd(T* target, std::type_identity_t<T> value) {
  return dragonn::emulation::replace(target, [&](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicMax(T* target, std::type_identity_t<T> value) {
  return dragonn::emulation::replace(target, [&](T old) { return std::max(old, value); });
}
template <class T>
T atomicMin(T* target, std::type_identity_t<T> value) {
  return dragonn::emulation::replace(target, [&](T old) { return std::min(old, value); });
}
template <class T>
T atomicOr(T* target, std::type_identity_t<T> value) {
  return dragonn::emulation::replace(target, [&](T old) { return static_cast<T>(old | value); });
}

template <class T>
T __ldcg(const T* source) {
  return *source;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline int __popc(unsigned bits) {
  return std::popcount(bits);
}
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}
inline std::uint32_t __float_as_uint(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
inline float __uint_as_float(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
