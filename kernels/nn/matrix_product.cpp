// SPDX-License-Identifier: MIT
#include "kernels/nn/matrix_product.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include <oneapi/dnnl/dnnl.h>

#include "core/error.h"
#include "kernels/chunks.h"

namespace dragonn::kernels::detail {

void multiply(const Matrix& a, const Matrix& b, float keep, float* c) {
  const std::int64_t inner = a.transposed ? a.rows : a.columns, columns = b.transposed ? b.rows : b.columns;
  const dnnl_status_t status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', a.outer(), columns, inner,
                                          1.0f, a.data, a.columns, b.data, b.columns, keep, c, columns);
  DRAGONN_CHECK(status == dnnl_success, "oneDNN's sgemm failed with status {}", static_cast<int>(status));
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
