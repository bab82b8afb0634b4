// SPDX-License-Identifier: MIT
/// Gradient sweeps: the parts of a GPU's gradient passes; each is in a file of its own.
#pragma once

#include <cstddef>

#include "core/sparse_vector.h"
#include "kernels/cuda/runtime.h"
#include "kernels/gradient/cuda/slots.h"
#include "kernels/gradient/gradient_pass_simd.h"
#include "kernels/gradient/magnitude_sample.h"

namespace dragonn::kernels::cuda {

/// A threshold: given, or at an address on the GPU that an earlier kernel writes.
struct Threshold {
  float value = 0;
  const float* place = nullptr;
};

/// The elements [begin, end).
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The entries that a sweep selects.
struct SweepSelection {
  Range range;  ///< part of the accumulated elements
  Threshold threshold;
  Slots slots = {};                 ///< slots that the selected entries are hashed into, if there are any
  SparseVector* holders = nullptr;  ///< overwritten with those that hold their slots; null without slots
};

/// The result of a sweep for the host.
struct SweepOutcome {
  bool non_finite = false;
  float threshold = 0;  ///< the threshold that was compared with
};

/// Accumulates `numel` elements. 4 bytes per array read, 4 per array written.
bool sweep(Context& here, const detail::AccumulateJob& job, std::size_t numel);
/// Accumulates `range`, and in the same pass selects the wanted entries that reach the threshold and are not zero,
/// ascending. They overwrite `selected`. If they do not fit its memory, it grows and is filled by a second pass that
/// only reads. Waits once per pass.
SweepOutcome sweep_select(Context& here, const detail::AccumulateJob& job, const Range& range,
                          const SweepSelection& selection, SparseVector& selected);
/// Accumulates `numel` elements and returns the moments of acc.
Moments sweep_moments(Context& here, const detail::AccumulateJob& job, std::size_t numel);

/// Writes the magnitudes of the sample to the scratch, and their rank-th largest to an address on the GPU, which is
/// valid until here.device_results() is used again. acc is not stored.
const float* sample_on_device(Context& here, const detail::AccumulateJob& job, const SamplePlan& plan,
                              std::size_t numel, SampleScratch& scratch);

}  // namespace dragonn::kernels::cuda
