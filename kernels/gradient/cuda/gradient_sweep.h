// SPDX-License-Identifier: MIT
/// Gradient sweeps: the parts of a GPU's gradient passes; each is in a file of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/sparse_vector.h"
#include "kernels/cuda/runtime.h"
#include "kernels/gradient/cuda/look_back.h"
#include "kernels/gradient/cuda/slots.h"
#include "kernels/gradient/gradient_pass_simd.h"
#include "kernels/gradient/magnitude.h"

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

/// Sums over acc, as a GPU writes them.
struct MomentTotals {
  double sum = 0;
  double sum_squares = 0;
  double signed_sum = 0;
  std::uint64_t largest = 0;  ///< the bits of a magnitude, so that a NaN stays
};
Moments moments_of(const MomentTotals& totals);

/// The report of a sweep. The sweep's function starts a copy to it, for which the caller waits: it is page-locked
/// memory of the host.
struct SweepReport {
  Compaction hits = {};     ///< of sweeps without moments; without a selection only `non_finite` counts
  Compaction holders = {};  ///< of the hits that hold their slots
  MomentTotals moments = {};
};
static_assert(sizeof(SweepReport) <= Context::kResultBytes);
static_assert(offsetof(SweepReport, holders) == sizeof(Compaction), "compactions are copied back together");

/// Returns the place of acc after a sweep: that of the gradient, if the sweep stores none.
inline const float* stored_acc(const detail::AccumulateJob& job) {
  return job.kind == detail::AccumulateKind::kExamine ? job.gradient : job.acc;
}

/// Starts to accumulate `numel` elements. 4 bytes per array read, 4 per array written.
void start_sweep(Context& here, const detail::AccumulateJob& job, std::size_t numel, SweepReport& report);
/// Starts to accumulate `numel` elements and to add up the moments of acc.
void start_moments(Context& here, const detail::AccumulateJob& job, std::size_t numel, SweepReport& report);
/// Starts to accumulate `range`, and in the same pass to select the wanted entries that reach the threshold and are not
/// zero, ascending. They overwrite `selected`, as many as fit its memory. Its size is that of the memory, and so is
/// that of the holders, until finish_select().
void start_select(Context& here, const detail::AccumulateJob& job, const Range& range, const SweepSelection& selection,
                  SparseVector& selected, SweepReport& report);
/// Sets the sizes of the lists of start_select() after a wait. If the entries did not fit, the memory grows, and a
/// second pass over `acc`, which was stored, fills it and waits. The slots must be as the first pass left them.
SweepOutcome finish_select(Context& here, const float* acc, const SweepSelection& selection, SparseVector& selected,
                           const SweepReport& report);
/// Does both. Waits once per pass.
SweepOutcome sweep_select(Context& here, const detail::AccumulateJob& job, const Range& range,
                          const SweepSelection& selection, SparseVector& selected);

/// Returns the report of a sweep that its caller waits for at once.
inline SweepReport& here_and_now(Context& here) {
  return *static_cast<SweepReport*>(here.host_results());
}

/// Writes the magnitudes of the sample to the scratch, and their rank-th largest to an address on the GPU, which is
/// valid until here.device_results() is used again. acc is not stored.
const float* sample_on_device(Context& here, const detail::AccumulateJob& job, const SamplePlan& plan,
                              std::size_t numel, SampleScratch& scratch);

}  // namespace dragonn::kernels::cuda
