// SPDX-License-Identifier: MIT
// The calls of cuBLAS that this project makes: products summed in double, in column-major order as there.
#include <cstdint>
#include <cublas_v2.h>
#include <vector>

#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/stream.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace {

using dragonn::emulation::check_access;

struct Matrix {
  const float* values;
  std::int64_t stride;
  bool transposed;
  double at(std::int64_t row, std::int64_t column) const {
    return transposed ? values[row * stride + column] : values[column * stride + row];
  }
  void check(std::int64_t rows, std::int64_t columns) const {
    if (rows == 0 || columns == 0) return;
    const std::int64_t last = transposed ? (rows - 1) * stride + columns : (columns - 1) * stride + rows;
    check_access(values, static_cast<std::size_t>(last) * sizeof(float), "a product of cuBLAS");
  }
};

struct Problem {
  Matrix left, right;
  float* result;
  std::int64_t rows, columns, inner, stride;
  double factor, keep;

  void solve() const {
    static std::vector<double> left_columns, sums;  // used by the holder of the device
    left.check(rows, inner);
    right.check(inner, columns);
    Matrix{result, stride, false}.check(rows, columns);
    left_columns.clear();
    for (std::int64_t i = 0; i < inner; ++i)
      for (std::int64_t row = 0; row < rows; ++row) left_columns.push_back(left.at(row, i));
    for (std::int64_t column = 0; column < columns; ++column) {
      sums.assign(static_cast<std::size_t>(rows), 0.0);
      const double* terms = left_columns.data();
      for (std::int64_t i = 0; i < inner; ++i) {
        const double by = right.at(i, column);
        for (double& sum : sums) sum += *terms++ * by;
      }
      float* target = result + column * stride;
      // A result that is not kept may be NaN.
      for (const double sum : sums) {
        *target = static_cast<float>(factor * sum + (keep == 0 ? 0.0 : keep * *target));
        ++target;
      }
    }
  }
};

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t) {
  return "a status of the emulation";
}

cublasStatus_t cublasGemmStridedBatchedEx_64(cublasHandle_t handle, cublasOperation_t operation_a,
                                             cublasOperation_t operation_b, std::int64_t rows, std::int64_t columns,
                                             std::int64_t inner, const void* alpha, const void* a, cudaDataType,
                                             std::int64_t stride_a, long long next_a, const void* b, cudaDataType,
                                             std::int64_t stride_b, long long next_b, const void* beta, void* c,
                                             cudaDataType, std::int64_t stride_c, long long next_c, std::int64_t batch,
                                             cublasComputeType_t, cublasGemmAlgo_t) {
  const bool transposed_a = operation_a != CUBLAS_OP_N, transposed_b = operation_b != CUBLAS_OP_N;
  if (rows < 0 || columns < 0 || inner < 0 || batch < 0 || stride_a < (transposed_a ? inner : rows) ||
      stride_b < (transposed_b ? columns : inner) || stride_c < rows)
    return CUBLAS_STATUS_INVALID_VALUE;
  const double factor = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
  for (std::int64_t item = 0; item < batch; ++item) {
    const Problem problem{{static_cast<const float*>(a) + item * next_a, stride_a, transposed_a},
                          {static_cast<const float*>(b) + item * next_b, stride_b, transposed_b},
                          static_cast<float*>(c) + item * next_c,
                          rows,
                          columns,
                          inner,
                          stride_c,
                          factor,
                          keep};
    dragonn::emulation::enqueue(handle->stream, [problem] { problem.solve(); });
  }
  return CUBLAS_STATUS_SUCCESS;
}
}
