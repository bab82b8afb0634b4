// SPDX-License-Identifier: MIT
/// What the gradient passes of a GPU are made of; each is in a file of its own.
#pragma once

#include <cstddef>

#include "core/sparse_vector.h"
#include "kernels/cuda/runtime.h"
#include "kernels/gradient_pass_simd.h"
#include "kernels/magnitude_sample.h"

namespace dragonn::kernels::cuda {

/// A threshold, given, or at a place of the GPU's memory that an earlier kernel writes.
struct Threshold {
  float value = 0;
  const float* place = nullptr;
};

/// What a sweep tells the host.
struct SweepOutcome {
  bool non_finite = false;
  float threshold = 0;  ///< that was compared with
};

/// Elements [begin, end).
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Accumulates `numel` elements. 4 bytes per array read, 4 per array written.
bool sweep(Context& here, const detail::AccumulateJob& job, std::size_t numel);
/// Accumulates `range`, and in the same pass selects the entries of `wanted`, a part of it, that reach the threshold
/// and are not zero, ascending. `selected` is overwritten with them; where they are more than it has room for, it grows
/// and is filled by a second pass that only reads.
SweepOutcome sweep_select(Context& here, const detail::AccumulateJob& job, const Range& range, const Range& wanted,
                          const Threshold& threshold, SparseVector& selected);
/// The same as sweep(), and sums up what acc became.
Moments sweep_moments(Context& here, const detail::AccumulateJob& job, std::size_t numel);

/// Writes the magnitudes of the sample to the scratch, and their rank-th largest to a place of the GPU's memory, which
/// is valid until here.device_results() is used again. acc is not stored.
const float* sample_on_device(Context& here, const detail::AccumulateJob& job, const SamplePlan& plan,
                              std::size_t numel, SampleScratch& scratch);

}  // namespace dragonn::kernels::cuda
