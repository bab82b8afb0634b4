// SPDX-License-Identifier: MIT
#include "kernels/nn/matrix_product.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "core/error.h"
#include "kernels/chunks.h"
#include "kernels/nn/onednn.h"

namespace dragonn::kernels::detail {

namespace {

dnnl_status_t product(const Matrix& a, const Matrix& b, std::int64_t columns, float keep, float* c,
                      std::int64_t pitch) {
  const std::int64_t inner = a.transposed ? a.rows : a.columns;
  return dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', a.outer(), columns, inner, 1.0f, a.data,
                    a.columns, b.data, b.columns, keep, c, pitch);
}

/// Returns how many columns of c a thread computes by a product of its own, a multiple of a tile's; all, if the library
/// shares out the product. With AVX-512 the library's way is slow where the second factor is transposed and the first
/// has few rows: two threads reach 0.3 to 0.9 times the rate of two products of 32 to 512 rows.
std::int64_t columns_of_thread(const Matrix& a, const Matrix& b, std::int64_t columns) {
  constexpr std::int64_t kFewestRows = 32, kFewRows = 512, kFewestColumns = 128, kTile = 48;
  const int threads = omp_in_parallel() != 0 ? 1 : omp_get_max_threads();
  if (threads == 1 || a.transposed || !b.transposed || a.rows < kFewestRows || a.rows > kFewRows ||
      columns < threads * kFewestColumns || !onednn::uses_avx512())
    return columns;
  return ((columns + threads - 1) / threads + kTile - 1) / kTile * kTile;
}

}  // namespace

void multiply(const Matrix& a, const Matrix& b, float keep, float* c) {
  const std::int64_t columns = b.transposed ? b.rows : b.columns;
  const std::int64_t share = columns_of_thread(a, b, columns);
  std::atomic<dnnl_status_t> failure = dnnl_success;
  const auto run = [&](std::int64_t begin) {
    Matrix factor = b;
    factor.data += begin * b.columns;  // columns are shared out if b is transposed: they are its rows
    const dnnl_status_t status = product(a, factor, std::min(share, columns - begin), keep, c + begin, columns);
    if (status != dnnl_success) failure = status;
  };
  if (share == columns) {
    run(0);
  } else {
#pragma omp parallel for schedule(static, 1)
    for (std::int64_t begin = 0; begin < columns; begin += share) run(begin);
  }
  DRAGONN_CHECK(failure == dnnl_success, "oneDNN's sgemm failed with status {}", static_cast<int>(failure.load()));
}

void sum_columns(const Matrix& matrix, float* sums) {
  constexpr std::size_t kBlock = 16;
  const Chunks blocks(static_cast<std::size_t>(matrix.columns), kBlock, kBlock);
  for_each_chunk(blocks, [&](std::size_t chunk) {
    for (std::size_t begin = blocks.begin(chunk); begin < blocks.end(chunk); begin += kBlock) {
      const std::size_t count = std::min(kBlock, blocks.end(chunk) - begin);
      std::array<double, kBlock> total{};
      for (std::int64_t row = 0; row < matrix.rows; ++row)
        for (std::size_t i = 0; i < count; ++i)
          total[i] += matrix.data[static_cast<std::size_t>(row * matrix.columns) + begin + i];
      for (std::size_t i = 0; i < count; ++i) sums[begin + i] = static_cast<float>(total[i]);
    }
  });
}

void fill_rows(const float* row, std::int64_t rows, std::int64_t columns, float* matrix) {
  if (row == nullptr) {
    std::fill_n(matrix, rows * columns, 0.0f);
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i) std::copy_n(row, columns, matrix + i * columns);
}

}  // namespace dragonn::kernels::detail
