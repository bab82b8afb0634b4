// SPDX-License-Identifier: MIT
/// Vector loops of the gradient passes, dispatched at run time to the best instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gradient/magnitude.h"

namespace dragonn::kernels::detail {

enum class AccumulateKind { kExamine, kScale, kResidual, kHeavyBall, kNesterov };

/// The rule by which elements are accumulated, and its operands.
struct AccumulateJob {
  AccumulateKind kind = AccumulateKind::kExamine;
  const float* gradient = nullptr;
  float* acc = nullptr;       ///< residual, velocity v or the scaled copy; unused by kExamine
  float* momentum = nullptr;  ///< u of the momentum rules
  float scale = 1;
  float factor = 1;  ///< decay of the residual, or the momentum coefficient
};

struct ChunkOutcome {
  bool non_finite = false;
  std::size_t selected = 0;
};

/// Accumulates elements [begin, end).
ChunkOutcome accumulate_chunk(const AccumulateJob& job, std::size_t begin, std::size_t end);
/// Accumulates elements [begin, end), and writes the entries with |acc| >= threshold and acc != 0, ascending. `indices`
/// and `values` have room for end - begin entries.
ChunkOutcome accumulate_select_chunk(const AccumulateJob& job, std::size_t begin, std::size_t end, float threshold,
                                     std::uint32_t* indices, float* values);
/// Accumulates elements [begin, end) and returns the moments of acc. Element begin + i adds to the partial sum i % 16
/// on every instruction set, and these are added in order.
Moments accumulate_moments_chunk(const AccumulateJob& job, std::size_t begin, std::size_t end);
/// Samples acc: magnitudes[i - begin] = |acc_i| as it will be after the pass, 0 for a NaN. Stores nothing else.
void sample_chunk(const AccumulateJob& job, std::size_t begin, std::size_t end, float* magnitudes);

}  // namespace dragonn::kernels::detail
