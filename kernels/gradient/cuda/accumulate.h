// SPDX-License-Identifier: MIT
/// Accumulation on a GPU, four elements at a time: the part that all gradient passes share; and what their files have
/// from each other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gradient/cuda/look_back.h"
#include "kernels/gradient/gradient_pass_sweep.h"

#ifdef DRAGONN_DEVICE_CODE
namespace dragonn::kernels::cuda {

using detail::AccumulateJob;
using detail::AccumulateKind;
using detail::kHasAcc;
using detail::kHasEstimate;
using detail::kHasState;
using detail::Range;

inline constexpr unsigned kFour = 4;     // elements of a 16-byte access
inline constexpr unsigned kVectors = 4;  // accesses of a thread that are under way at once, per array
inline constexpr unsigned kTileElements = kThreads * kFour * kVectors;
inline constexpr unsigned kWarpFours = kWarp * kFour;  // elements of one 16-byte access of a warp

struct Four {
  float lane[kFour];
};

/// Loads four elements. kAligned: they lie on 16 bytes.
template <bool kAligned>
__device__ inline Four load_four(const float* values) {
  if constexpr (kAligned) {
    const float4 four = *reinterpret_cast<const float4*>(values);
    return {{four.x, four.y, four.z, four.w}};
  } else {
    return {{values[0], values[1], values[2], values[3]}};
  }
}
template <bool kAligned>
__device__ inline void store_four(const Four& four, float* values) {
  if constexpr (kAligned) {
    *reinterpret_cast<float4*>(values) = make_float4(four.lane[0], four.lane[1], four.lane[2], four.lane[3]);
  } else {
    for (unsigned j = 0; j < kFour; ++j) values[j] = four.lane[j];
  }
}

template <AccumulateKind kKind>
inline constexpr bool kStores = kKind != AccumulateKind::kExamine;

/// The values of one element before a pass; those that its rule has no array for are 0.
struct Element {
  float gradient = 0, acc = 0, state = 0, estimate = 0;
};

/// Accumulates one element with the arithmetic of kernels/gradient/gradient_pass_sweep.cpp, operation by operation. The
/// state is updated.
template <AccumulateKind kKind>
__device__ inline float accumulate_one(const AccumulateJob& job, Element& of) {
  if constexpr (kKind == AccumulateKind::kExamine) {
    return of.gradient;
  } else {
    const float gradient = job.scale * of.gradient;
    if constexpr (kKind == AccumulateKind::kResidual) {
      return job.factor * of.acc + gradient;
    } else if constexpr (kKind == AccumulateKind::kHeavyBall) {
      of.state = job.factor * of.state + gradient;
      return of.acc + of.state;
    } else if constexpr (kKind == AccumulateKind::kNesterov) {
      of.state = job.factor * (of.state + gradient);
      return (of.acc + of.state) + gradient;
    } else if constexpr (kKind == AccumulateKind::kMomentumDifference) {
      of.state = job.factor * of.state + gradient;
      return (job.out * of.state + job.take * gradient) - of.estimate;
    } else if constexpr (kHasState<kKind>) {
      of.state = job.factor * of.state + job.take * of.acc;
      const float acc = job.out * of.state + gradient;
      return kHasEstimate<kKind> ? acc - of.estimate : acc;
    } else {
      return kHasEstimate<kKind> ? gradient - of.estimate : gradient;
    }
  }
}

/// Loads element i.
template <AccumulateKind kKind>
__device__ inline Element load_element(const AccumulateJob& job, std::size_t i) {
  Element element{.gradient = job.gradient[i]};
  if constexpr (kHasAcc<kKind>) element.acc = job.acc[i];
  if constexpr (kHasState<kKind>) element.state = job.state[i];
  if constexpr (kHasEstimate<kKind>) element.estimate = job.estimate[i];
  return element;
}

/// Returns the job of the elements from `first` on.
template <AccumulateKind kKind>
__device__ inline AccumulateJob job_from(AccumulateJob job, std::size_t first) {
  job.gradient += first;
  if constexpr (kStores<kKind>) job.acc += first;
  if constexpr (kHasState<kKind>) job.state += first;
  if constexpr (kHasEstimate<kKind>) job.estimate += first;
  return job;
}

/// Accumulates element i, and stores it.
template <AccumulateKind kKind>
__device__ inline float accumulate_element(const AccumulateJob& job, std::size_t i) {
  Element element = load_element<kKind>(job, i);
  const float acc = accumulate_one<kKind>(job, element);
  if constexpr (kHasState<kKind>) job.state[i] = element.state;
  if constexpr (kStores<kKind>) job.acc[i] = acc;
  return acc;
}

/// The values of four elements before a pass.
struct FourElements {
  Four gradient{}, acc{}, state{}, estimate{};

  /// Returns acc after the pass. The state is updated.
  template <AccumulateKind kKind>
  __device__ Four accumulate(const AccumulateJob& job) {
    Four result;
    for (unsigned j = 0; j < kFour; ++j) {
      Element element{.gradient = gradient.lane[j]};
      if constexpr (kHasAcc<kKind>) element.acc = acc.lane[j];
      if constexpr (kHasState<kKind>) element.state = state.lane[j];
      if constexpr (kHasEstimate<kKind>) element.estimate = estimate.lane[j];
      result.lane[j] = accumulate_one<kKind>(job, element);
      if constexpr (kHasState<kKind>) state.lane[j] = element.state;
    }
    return result;
  }
};

/// Loads the job's first four elements.
template <AccumulateKind kKind, bool kAligned>
__device__ inline FourElements load_elements(const AccumulateJob& job) {
  FourElements four;
  four.gradient = load_four<kAligned>(job.gradient);
  if constexpr (kHasAcc<kKind>) four.acc = load_four<kAligned>(job.acc);
  if constexpr (kHasState<kKind>) four.state = load_four<kAligned>(job.state);
  if constexpr (kHasEstimate<kKind>) four.estimate = load_four<kAligned>(job.estimate);
  return four;
}

/// Accumulates and stores kCount vectors of this thread, of four elements each, that lie kWarpFours elements apart from
/// the job's first element on. All loads come first, so that none waits for a store.
template <AccumulateKind kKind, bool kAligned, unsigned kCount>
__device__ inline void accumulate_vectors(const AccumulateJob& job, Four (&acc)[kCount]) {
  FourElements before[kCount];
  for (unsigned v = 0; v < kCount; ++v)
    before[v] = load_elements<kKind, kAligned>(job_from<kKind>(job, v * kWarpFours));
  for (unsigned v = 0; v < kCount; ++v) {
    acc[v] = before[v].template accumulate<kKind>(job);
    if constexpr (kHasState<kKind>) store_four<kAligned>(before[v].state, job.state + v * kWarpFours);
    if constexpr (kStores<kKind>) store_four<kAligned>(acc[v], job.acc + v * kWarpFours);
  }
}

/// Returns the first element of this thread in a tile of which a thread has `vectors` vectors. A warp's elements are
/// neighbours, so that its order is that of vectors, lanes, elements.
__device__ inline unsigned place_in_tile(unsigned vectors) {
  return warp_id() * vectors * kWarpFours + lane_id() * kFour;
}

/// Accumulates the tile of kTileElements elements that begins at `begin`, stores it, and calls see(value) for all its
/// values of this thread. The size is compared with once per tile; only the last tile compares for every element.
template <AccumulateKind kKind, bool kAligned, class See>
__device__ inline void accumulate_tile(const AccumulateJob& job, std::size_t begin, std::size_t size, const See& see) {
  const std::size_t first = begin + place_in_tile(kVectors);
  if (begin + kTileElements <= size) {
    Four acc[kVectors];
    accumulate_vectors<kKind, kAligned>(job_from<kKind>(job, first), acc);
    for (const Four& four : acc) {
      for (const float value : four.lane) see(value);
    }
    return;
  }
  for (unsigned v = 0; v < kVectors; ++v) {
    const std::size_t i = first + v * kWarpFours;
    for (std::size_t place = i; place < i + kFour && place < size; ++place) see(accumulate_element<kKind>(job, place));
  }
}

/// Calls see(value) for all accumulated values of this thread, in tiles that the blocks take in turn.
template <AccumulateKind kKind, bool kAligned, class See>
__device__ inline void accumulate_in_turns(const AccumulateJob& job, std::size_t size, const See& see) {
  for (std::size_t begin = std::size_t{blockIdx.x} * kTileElements; begin < size;
       begin += std::size_t{gridDim.x} * kTileElements)
    accumulate_tile<kKind, kAligned>(job, begin, size, see);
}

/// Calls see(value) for all values of this thread, in tiles that the blocks take in turn.
template <bool kAligned, class See>
__device__ inline void for_each_value(const float* values, std::size_t size, const See& see) {
  accumulate_in_turns<AccumulateKind::kExamine, kAligned>({.gradient = values}, size, see);
}

/// Returns the bits of |value|. They order as magnitudes do, infinity above all numbers and NaN above infinity.
__device__ inline std::uint32_t magnitude_bits(float value) {
  return __float_as_uint(value) & 0x7fffffffu;
}
inline constexpr std::uint32_t kInfinityBits = 0x7f800000u;

/// Returns whether 16-byte accesses fit all arrays of the job.
inline bool is_aligned(const AccumulateJob& job) {
  const auto fits = [](const float* values) { return reinterpret_cast<std::uintptr_t>(values) % sizeof(float4) == 0; };
  return fits(job.gradient) && fits(job.acc) && fits(job.state) && fits(job.estimate);
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
    case AccumulateKind::kFiltered:
      return with_alignment<AccumulateKind::kFiltered>(job, launch);
    case AccumulateKind::kFilteredDifference:
      return with_alignment<AccumulateKind::kFilteredDifference>(job, launch);
    case AccumulateKind::kDifference:
      return with_alignment<AccumulateKind::kDifference>(job, launch);
    case AccumulateKind::kMomentumDifference:
      return with_alignment<AccumulateKind::kMomentumDifference>(job, launch);
  }
}

/// Selects as kernels::select_threshold does, as a part of a pass that is counted already.
void select_uncounted(View<const float> values, float threshold, const Range& range, SparseVector& selected);

/// Writes the magnitudes of the sample to the scratch, and their rank-th largest to an address on the GPU, which is
/// valid until here.device_results() is used again. acc is not stored.
const float* sample_on_device(Context& here, const AccumulateJob& job, const SamplePlan& plan, std::size_t numel,
                              SampleScratch& scratch);

}  // namespace dragonn::kernels::cuda
#endif
