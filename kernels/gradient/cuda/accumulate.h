// SPDX-License-Identifier: MIT
/// Accumulation on a GPU, four elements at a time: the part that all gradient passes share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gradient/cuda/look_back.h"
#include "kernels/gradient/gradient_pass_simd.h"

#ifdef DRAGONN_DEVICE_CODE
namespace dragonn::kernels::cuda {

using detail::AccumulateJob;
using detail::AccumulateKind;

inline constexpr unsigned kFour = 4;     // elements of a 16-byte access
inline constexpr unsigned kVectors = 4;  // accesses of a thread that are under way at once, per array
inline constexpr unsigned kWarpElements = kWarp * kFour * kVectors;
inline constexpr unsigned kTileElements = kThreads * kFour * kVectors;

struct Four {
  float lane[kFour];
};

/// Loads elements i to i + 3, with zeros from `size` on. kAligned: `values` lies on 16 bytes, and i is a multiple of 4.
template <bool kAligned>
__device__ inline Four load_four(const float* values, std::size_t i, std::size_t size) {
  if (kAligned && i + kFour <= size) {
    const float4 four = *reinterpret_cast<const float4*>(values + i);
    return {{four.x, four.y, four.z, four.w}};
  }
  Four four;
  for (unsigned j = 0; j < kFour; ++j) four.lane[j] = i + j < size ? values[i + j] : 0.0f;
  return four;
}
template <bool kAligned>
__device__ inline void store_four(const Four& four, float* values, std::size_t i, std::size_t size) {
  if (kAligned && i + kFour <= size) {
    *reinterpret_cast<float4*>(values + i) = make_float4(four.lane[0], four.lane[1], four.lane[2], four.lane[3]);
    return;
  }
  for (unsigned j = 0; j < kFour; ++j) {
    if (i + j < size) values[i + j] = four.lane[j];
  }
}

template <AccumulateKind kKind>
inline constexpr bool kHasMomentum = kKind == AccumulateKind::kHeavyBall || kKind == AccumulateKind::kNesterov;
template <AccumulateKind kKind>
inline constexpr bool kHasAcc = kHasMomentum<kKind> || kKind == AccumulateKind::kResidual;

/// Accumulates one element with the arithmetic of kernels/gradient/gradient_pass-inl.h, operation by operation. `u` is
/// updated.
template <AccumulateKind kKind>
__device__ inline float accumulate_one(const AccumulateJob& job, float raw, float acc, float& u) {
  if constexpr (kKind == AccumulateKind::kExamine) {
    return raw;
  } else {
    const float gradient = job.scale * raw;
    if constexpr (kKind == AccumulateKind::kResidual) {
      return job.factor * acc + gradient;
    } else if constexpr (kKind == AccumulateKind::kHeavyBall) {
      u = job.factor * u + gradient;
      return acc + u;
    } else if constexpr (kKind == AccumulateKind::kNesterov) {
      u = job.factor * (u + gradient);
      return (acc + u) + gradient;
    } else {
      return gradient;
    }
  }
}

/// Returns the first element of vector v of this thread, in a tile that begins at `begin`. A warp's elements are
/// neighbours, so that its order is that of vectors, lanes, elements.
__device__ inline std::size_t place_of_vector(std::size_t begin, unsigned v) {
  return begin + warp_id() * kWarpElements + (v * kWarp + lane_id()) * kFour;
}

/// Accumulates the tile that begins at `begin`, and stores it. All loads come first, so that none waits for a store.
template <AccumulateKind kKind, bool kAligned>
__device__ inline void accumulate_tile(const AccumulateJob& job, std::size_t begin, std::size_t size,
                                       Four (&acc)[kVectors]) {
  Four old[kVectors], u[kVectors];
  for (unsigned v = 0; v < kVectors; ++v) {
    const std::size_t i = place_of_vector(begin, v);
    acc[v] = load_four<kAligned>(job.gradient, i, size);
    if constexpr (kHasAcc<kKind>) old[v] = load_four<kAligned>(job.acc, i, size);
    if constexpr (kHasMomentum<kKind>) u[v] = load_four<kAligned>(job.momentum, i, size);
  }
  if constexpr (kKind != AccumulateKind::kExamine) {
    for (unsigned v = 0; v < kVectors; ++v) {
      const std::size_t i = place_of_vector(begin, v);
      for (unsigned j = 0; j < kFour; ++j) {
        float none = 0;
        float& momentum = kHasMomentum<kKind> ? u[v].lane[j] : none;
        acc[v].lane[j] = accumulate_one<kKind>(job, acc[v].lane[j], kHasAcc<kKind> ? old[v].lane[j] : 0.0f, momentum);
      }
      if constexpr (kHasMomentum<kKind>) store_four<kAligned>(u[v], job.momentum, i, size);
      store_four<kAligned>(acc[v], job.acc, i, size);
    }
  }
}

/// Calls see(value) for all values of this thread, in tiles that the blocks take in turn.
template <bool kAligned, class See>
__device__ inline void for_each_value(const float* values, std::size_t size, const See& see) {
  const AccumulateJob job{.gradient = values};
  for (std::size_t begin = std::size_t{blockIdx.x} * kTileElements; begin < size;
       begin += std::size_t{gridDim.x} * kTileElements) {
    Four four[kVectors];
    accumulate_tile<AccumulateKind::kExamine, kAligned>(job, begin, size, four);
    for (unsigned v = 0; v < kVectors; ++v) {
      const std::size_t i = place_of_vector(begin, v);
      for (unsigned j = 0; j < kFour; ++j) {
        if (i + j < size) see(four[v].lane[j]);
      }
    }
  }
}

/// Returns the bits of |value|. They order as magnitudes do, infinity above all numbers and NaN above infinity.
__device__ inline std::uint32_t magnitude_bits(float value) {
  return __float_as_uint(value) & 0x7fffffffu;
}
inline constexpr std::uint32_t kInfinityBits = 0x7f800000u;

/// Returns whether 16-byte accesses fit all arrays of the job.
inline bool is_aligned(const AccumulateJob& job) {
  const auto fits = [](const float* values) { return reinterpret_cast<std::uintptr_t>(values) % sizeof(float4) == 0; };
  return fits(job.gradient) && fits(job.acc) && fits(job.momentum);
}

/// Calls launch.operator()<kind, aligned>() with the job's kind, and with whether 16-byte accesses fit.
template <AccumulateKind kKind, class Launch>
void with_alignment(const AccumulateJob& job, const Launch& launch) {
  if (is_aligned(job)) {
    launch.template operator()<kKind, true>();
  } else {
    launch.template operator()<kKind, false>();
  }
}
template <class Launch>
void with_kind(const AccumulateJob& job, const Launch& launch) {
  switch (job.kind) {
    case AccumulateKind::kExamine:
      return with_alignment<AccumulateKind::kExamine>(job, launch);
    case AccumulateKind::kScale:
      return with_alignment<AccumulateKind::kScale>(job, launch);
    case AccumulateKind::kResidual:
      return with_alignment<AccumulateKind::kResidual>(job, launch);
    case AccumulateKind::kHeavyBall:
      return with_alignment<AccumulateKind::kHeavyBall>(job, launch);
    case AccumulateKind::kNesterov:
      return with_alignment<AccumulateKind::kNesterov>(job, launch);
  }
}

}  // namespace dragonn::kernels::cuda
#endif
