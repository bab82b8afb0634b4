// SPDX-License-Identifier: MIT
/// Orthogonalization of a matrix by Newton-Schulz iterations, as the optimizer Muon does it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/view.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

struct OrthogonalizeSpec {
  std::int64_t rows = 1, columns = 1;
  int steps = 5;

  std::size_t smaller() const { return static_cast<std::size_t>(std::min(rows, columns)); }
  std::size_t size() const { return static_cast<std::size_t>(rows * columns); }
  /// Returns the floats of the scratch memory: one matrix of this shape and two square ones of its smaller extent.
  std::size_t scratch_floats() const { return size() + 2 * smaller() * smaller(); }
};

/// The polynomial of an iteration, chosen for a steep slope at 0. It does not converge: five iterations bring singular
/// values to between 0.7 and 1.2, which is enough. Source: Jordan et al., Muon (2024),
/// kellerjordan.github.io/posts/muon.
inline constexpr float kNewtonSchulz1 = 3.4445f, kNewtonSchulz3 = -4.7750f, kNewtonSchulz5 = 2.0315f;

/// Replaces a matrix X [rows, columns] by scale X, and then `steps` times by
///
///     A = X X^T;  X <- (3.4445 I - 4.7750 A + 2.0315 A A) X        (A = X^T X and X (...) if it has more rows)
///
/// so that all singular values that are not tiny come near 1. Products are float32, whatever the precision of the
/// network: bits depend on the processor and its number of threads, as those of all matrix products.
/// 4 rows columns s + 2 s^3 operations per step, with s the smaller extent.
/// @param scale brings the largest singular value to 1 or below: 1 / norm does.
/// @param scratch [spec.scratch_floats()].  @throws ShapeError if a size does not fit.
extern Operation<void(const OrthogonalizeSpec& spec, float scale, View<float> matrix, View<float> scratch)>
    orthogonalize;

}  // namespace dragonn::kernels
