// SPDX-License-Identifier: MIT
/// Products of whole matrices on the CPU, by oneDNN. For .cpp files of this folder only.
#pragma once

#include <cstdint>

namespace dragonn::kernels::detail {

/// A factor: a matrix without gaps between its rows.
struct Matrix {
  const float* data;
  std::int64_t rows, columns;
  bool transposed = false;  ///< multiplies as its transpose

  std::int64_t outer() const { return transposed ? columns : rows; }
};
inline Matrix transpose(Matrix matrix) {
  matrix.transposed = !matrix.transposed;
  return matrix;
}

/// Multiplies: c = keep * c + a * b. @throws Error if the library fails.
void multiply(const Matrix& a, const Matrix& b, float keep, float* c);
/// Sums the columns of a matrix, in double: sums [columns].
void sum_columns(const Matrix& matrix, float* sums);
/// Sets each of `rows` rows to `row`; to zeros if it is null.
void fill_rows(const float* row, std::int64_t rows, std::int64_t columns, float* matrix);

}  // namespace dragonn::kernels::detail
