// SPDX-License-Identifier: MIT
/// Gradient sweeps: what the files of a GPU's gradient passes have from each other.
#pragma once

#include <cstddef>

#include "kernels/cuda/runtime.h"
#include "kernels/gradient/gradient_pass_sweep.h"

namespace dragonn::kernels::cuda {

using detail::Range;

/// Selects as kernels::select_threshold does, as a part of a pass that is counted already.
void select_uncounted(View<const float> values, float threshold, const Range& range, SparseVector& selected);

/// Writes the magnitudes of the sample to the scratch, and their rank-th largest to an address on the GPU, which is
/// valid until here.device_results() is used again. acc is not stored.
const float* sample_on_device(Context& here, const detail::AccumulateJob& job, const SamplePlan& plan,
                              std::size_t numel, SampleScratch& scratch);

}  // namespace dragonn::kernels::cuda
