// SPDX-License-Identifier: MIT
/// The loops over rows of losses and of attention, by vectors and on threads. For .cpp files of this folder only.
#pragma once

#include <cstddef>

#include "kernels/pieces.h"

namespace dragonn::kernels::detail {

/// Returns the largest value of a row that is not empty.
float largest_in_row(const float* row, std::size_t size);
/// Returns whether the first of the row's largest values, which is `largest`, is at `place`.
bool is_first_largest(const float* row, std::size_t place, float largest);

/// Sums over one row, relative to its largest value so that nothing overflows. A value that is not finite shows.
struct RowSums {
  double exponentials = 0;  ///< sum of exp(x - largest)
  double distances = 0;     ///< sum of x - largest; not finite if a value of the row is not
};

/// Returns the sums. @param exponentials null, or room for exp(x - largest); it may be `row`.
RowSums softmax_row_sums(const float* row, std::size_t size, float largest, float* exponentials);
/// Turns a row that is not empty into its softmax. Returns false, and leaves anything, if a value is not finite.
bool softmax_row(float* row, std::size_t size);
/// Computes row_i = row_i * scale + offset.
void scale_row(float* row, std::size_t size, float scale, float offset);
/// Computes result_i = exp(row_i - shift) * scale.
void exponential_row(const float* row, std::size_t size, float shift, float scale, float* result);
/// Computes gradient_i = weights_i * (gradient_i - sum of weights * gradient) * scale: the gradient of a softmax whose
/// values are the weights. The sum is in double.
void softmax_backward_row(const float* weights, std::size_t size, float scale, float* gradient);

/// Returns the sum of log(1 + exp(x)) over a row, in double; sets result_i = sigmoid(x_i) * share (null; may be `row`).
double logistic_row(const float* row, std::size_t size, float share, float* result);

/// Calls body(piece, row) for every row, on threads. The rows of a piece are in order on one of them; pieces depend on
/// the sizes alone. Returns how many there are, kMaxPieces at most. `body` must not throw.
template <class Body>
std::size_t for_each_row(std::size_t rows, std::size_t columns, const Body& body) {
  return for_each_piece(rows, rows_per_piece(columns), [&](std::size_t piece, std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) body(piece, row);
  });
}

}  // namespace dragonn::kernels::detail
