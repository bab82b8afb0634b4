// SPDX-License-Identifier: MIT
/// The one pass over (residual, gradient): accumulate, fused with what the sparsifier needs next.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/sparse_vector.h"
#include "core/view.h"

namespace dragonn::kernels {

/// What a pass computes beside acc = residual + scale * gradient.
struct PassRequest {
  enum class Kind {
    kNone,       ///< accumulate only
    kSample,     ///< magnitudes of whole cache lines at a random stride
    kThreshold,  ///< entries with |acc| >= threshold and acc != 0 in [begin, end)
  };
  Kind kind = Kind::kNone;
  float threshold = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Results of a pass; buffers are reused. Every pass reports whether it saw a NaN or an infinity in the gradient.
struct PassResult {
  PassRequest request;
  bool non_finite = false;
  Buffer<float> sample;   ///< kSample: magnitudes
  SparseVector selected;  ///< kThreshold: ascending
};

}  // namespace dragonn::kernels
