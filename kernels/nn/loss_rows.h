// SPDX-License-Identifier: MIT
/// The vector loops of losses over rows. For .cpp files of this folder only.
#pragma once

#include <cstddef>

namespace dragonn::kernels::detail {

/// Moments of one row, relative to its largest value so that nothing overflows. `distances` is not finite if a value of
/// the row is not.
struct RowSums {
  float largest = 0;
  double exponentials = 0;  ///< sum of exp(x - largest)
  double distances = 0;     ///< sum of x - largest
};

RowSums softmax_row_sums(const float* row, std::size_t size);
/// Computes result_i = exp(row_i - shift) * scale + offset. `result` may be `row`.
void softmax_row(const float* row, std::size_t size, float shift, float scale, float offset, float* result);

/// Returns the sum of log(1 + exp(x)) over a row, in double; sets result_i = sigmoid(x_i) * share if there is a result.
double logistic_row(const float* row, std::size_t size, float share, float* result);

}  // namespace dragonn::kernels::detail
