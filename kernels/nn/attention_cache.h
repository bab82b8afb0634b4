// SPDX-License-Identifier: MIT
/// AttentionCache: causal attention on a sequence that arrives piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.h"
#include "core/view.h"

namespace dragonn::kernels {

/// Keeps the keys and values of the steps of one sequence, so that a new step costs what it sees, and earlier ones are
/// not computed again. On the CPU. The results are those of make_attention_plan with `causal`, but for rounding.
class AttentionCache {
 public:
  /// Takes 2 * steps * width floats. @param steps of the longest sequence.  @param heads divides width.
  AttentionCache(std::int64_t steps, std::int64_t width, std::int64_t heads);

  /// Computes attention for the steps that follow the first `before` ones; what was kept of later ones is forgotten.
  /// @param input [steps, 3 * width] queries, keys and values.  @param output [steps, width].  @throws ShapeError if
  /// the sequence becomes too long, or the sizes do not fit.
  void attend(View<const float> input, std::size_t before, View<float> output);

 private:
  std::int64_t steps_, width_, heads_;
  std::int64_t depth_;           // elements of a head
  Buffer<float> keys_, values_;  // [heads, steps, depth]: a head's steps are read one after the other
  Buffer<float> weights_;        // of the rows of one head for every thread
};

}  // namespace dragonn::kernels
