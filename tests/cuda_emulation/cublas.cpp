// SPDX-License-Identifier: MIT
// The calls of cuBLAS that this project makes: products summed in double, in column-major order as there.
#include <cstddef>
#include <cstdint>
#include <cublas_v2.h>
#include <vector>

#include "kernels/bf16.h"
#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/stream.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace {

using dragonn::emulation::check_access;

using dragonn::kernels::Bf16;

std::size_t bytes_of(cudaDataType type) {
  return type == CUDA_R_16BF ? sizeof(Bf16) : sizeof(float);
}

/// A matrix of float32 or bf16.
struct Matrix {
  const void* values;
  cudaDataType type;
  std::int64_t stride;
  bool transposed;

  double at(std::int64_t row, std::int64_t column) const {
    const std::int64_t place = transposed ? row * stride + column : column * stride + row;
    return type == CUDA_R_16BF ? dragonn::kernels::from_bf16(static_cast<const Bf16*>(values)[place])
                               : static_cast<const float*>(values)[place];
  }
  void set(std::int64_t row, std::int64_t column, double value) const {
    const std::int64_t place = column * stride + row;
    const auto rounded = static_cast<float>(value);
    if (type == CUDA_R_16BF)
      static_cast<Bf16*>(const_cast<void*>(values))[place] = dragonn::kernels::to_bf16(rounded);
    else
      static_cast<float*>(const_cast<void*>(values))[place] = rounded;
  }
  void check(std::int64_t rows, std::int64_t columns) const {
    if (rows == 0 || columns == 0) return;
    const std::int64_t last = transposed ? (rows - 1) * stride + columns : (columns - 1) * stride + rows;
    check_access(values, static_cast<std::size_t>(last) * bytes_of(type), "a product of cuBLAS");
  }
  Matrix item(std::int64_t distance) const {
    Matrix other = *this;
    other.values = static_cast<const std::byte*>(values) + distance * static_cast<std::int64_t>(bytes_of(type));
    return other;
  }
};

struct Problem {
  Matrix left, right, result;
  std::int64_t rows, columns, inner;
  double factor, keep;

  void solve() const {
    static std::vector<double> left_columns, sums;  // used by the holder of the device
    left.check(rows, inner);
    right.check(inner, columns);
    result.check(rows, columns);
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
      // A result that is not kept may be NaN.
      for (std::int64_t row = 0; row < rows; ++row)
        result.set(row, column,
                   factor * sums[static_cast<std::size_t>(row)] + (keep == 0 ? 0.0 : keep * result.at(row, column)));
    }
  }
};

/// Returns whether cuBLAS multiplies these types with sums of float32.
bool is_supported(cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t compute) {
  if (a != b) return false;
  if (a == CUDA_R_16BF) return compute == CUBLAS_COMPUTE_32F && (c == CUDA_R_16BF || c == CUDA_R_32F);
  return a == CUDA_R_32F && c == CUDA_R_32F;
}

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
                                             std::int64_t inner, const void* alpha, const void* a, cudaDataType type_a,
                                             std::int64_t stride_a, long long next_a, const void* b,
                                             cudaDataType type_b, std::int64_t stride_b, long long next_b,
                                             const void* beta, void* c, cudaDataType type_c, std::int64_t stride_c,
                                             long long next_c, std::int64_t batch, cublasComputeType_t compute,
                                             cublasGemmAlgo_t) {
  const bool transposed_a = operation_a != CUBLAS_OP_N, transposed_b = operation_b != CUBLAS_OP_N;
  if (rows < 0 || columns < 0 || inner < 0 || batch < 0 || stride_a < (transposed_a ? inner : rows) ||
      stride_b < (transposed_b ? columns : inner) || stride_c < rows)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported(type_a, type_b, type_c, compute)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const Matrix left{a, type_a, stride_a, transposed_a}, right{b, type_b, stride_b, transposed_b};
  const Matrix result{c, type_c, stride_c, false};
  const double factor = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
  for (std::int64_t item = 0; item < batch; ++item) {
    const Problem problem{left.item(item * next_a),
                          right.item(item * next_b),
                          result.item(item * next_c),
                          rows,
                          columns,
                          inner,
                          factor,
                          keep};
    dragonn::emulation::enqueue(handle->stream, [problem] { problem.solve(); });
  }
  return CUBLAS_STATUS_SUCCESS;
}
}
