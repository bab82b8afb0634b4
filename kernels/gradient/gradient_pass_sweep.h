// SPDX-License-Identifier: MIT
/// Sweeps: vector loops over a gradient, piece by piece, on threads; and the passes of all devices.
#pragma once

#include <cstddef>
#include <span>

#include "core/sparse_vector.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/operation.h"

namespace dragonn::kernels::detail {

enum class AccumulateKind {
  kExamine,
  kScale,
  kResidual,
  kHeavyBall,
  kNesterov,
  kFiltered,
  kFilteredDifference,
  kDifference,
  kMomentumDifference,
};

/// Whether a rule has arrays besides the gradient: a state that it updates, acc before the pass, an estimate.
template <AccumulateKind kKind>
inline constexpr bool kHasState =
    kKind == AccumulateKind::kHeavyBall || kKind == AccumulateKind::kNesterov || kKind == AccumulateKind::kFiltered ||
    kKind == AccumulateKind::kFilteredDifference || kKind == AccumulateKind::kMomentumDifference;
template <AccumulateKind kKind>
inline constexpr bool kHasAcc = kKind == AccumulateKind::kResidual ||
                                (kHasState<kKind> && kKind != AccumulateKind::kMomentumDifference);
template <AccumulateKind kKind>
inline constexpr bool kHasEstimate =
    kKind == AccumulateKind::kDifference || kKind == AccumulateKind::kMomentumDifference ||
    kKind == AccumulateKind::kFilteredDifference;

/// The rule by which elements are accumulated, and its operands.
struct AccumulateJob {
  AccumulateKind kind = AccumulateKind::kExamine;
  const float* gradient = nullptr;
  float* acc = nullptr;             ///< residual, velocity v, difference or scaled copy; unused by kExamine
  float* state = nullptr;           ///< u of the momentum rules, or what is filtered
  const float* estimate = nullptr;  ///< subtracted
  float* acc_before = nullptr;      ///< receives acc as it was; null: not wanted, as the next
  float* state_before = nullptr;
  float scale = 1;
  float factor = 1;  ///< decay of the residual or of the state, or the momentum coefficient
  float take = 0;    ///< factor on acc in the state; of kMomentumDifference on the gradient in the difference
  float out = 1;     ///< factor on the state in acc
};

struct ChunkOutcome {
  bool non_finite = false;
  std::size_t selected = 0;
};

/// Accumulates elements [begin, end), and writes the entries with |acc| >= threshold and acc != 0, ascending. `indices`
/// and `values` have room for end - begin entries.
ChunkOutcome accumulate_select_chunk(const AccumulateJob& job, std::size_t begin, std::size_t end, float threshold,
                                     std::uint32_t* indices, float* values);

/// The elements [begin, end).
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Accumulates `numel` elements. Returns whether acc holds a NaN or an infinity.
bool sweep(const AccumulateJob& job, std::size_t numel);

/// Accumulates `numel` elements and computes the moments of acc.
bool sweep_moments(const AccumulateJob& job, std::size_t numel, Moments& moments);

/// Accumulates `range` and selects the entries with |acc| >= threshold and acc != 0 of `wanted`, a part of it.
/// `selected` is overwritten, ascending, and reserves the length of `wanted`.
bool sweep_select(const AccumulateJob& job, Range range, Range wanted, float threshold, SparseVector& selected);

/// Asks for small pages, whatever the host memory's own are: of a list that pieces write far apart a huge page would be
/// backed as a whole. A wish, which the kernel may refuse; for memory of a GPU it does nothing.
void use_small_pages(void* data, std::size_t bytes);
template <class T>
void use_small_pages(Buffer<T>& buffer) {
  if (buffer.device().is_cpu()) use_small_pages(buffer.data(), buffer.capacity() * sizeof(T));
}

/// The hits of one piece: `count` entries at the places from `begin` on.
struct HitRun {
  std::size_t begin = 0;
  std::size_t count = 0;
};

/// Closes the gaps between the runs, which are in order, and drops what is behind the last.
void join_runs(std::span<const HitRun> runs, SparseVector& selected);

/// Returns the threshold that a sample of acc gives, before acc is stored.
float sample_job(const AccumulateJob& job, const SamplePlan& plan, std::size_t numel, SampleScratch& scratch);

/// A pass over `numel` elements whose pointers belong to the device of `result`; all arguments are checked already. It
/// sets `non_finite`, `selected`, and what the request asks for; or `unfinished`, if it leaves that to the operation
/// below.
extern Operation<void(const AccumulateJob& job, const PassRequest& request, std::size_t numel, PassResult& result)>
    gradient_pass_rows;
/// Finishes a pass that is unfinished.
extern Operation<void(PassResult& result)> finish_pass_rows;

}  // namespace dragonn::kernels::detail
