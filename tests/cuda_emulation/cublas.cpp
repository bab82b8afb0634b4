// SPDX-License-Identifier: MIT
// The calls of cuBLAS that this project makes: products summed in double, in column-major order as there.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cublasLt.h>
#include <cublas_v2.h>
#include <optional>
#include <vector>

#include "kernels/typed_view.h"
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
  std::optional<Matrix> bias = {};           // a column that is added to all of the result
  std::optional<Matrix> sums_of_right = {};  // a column that receives the sums of the right factor's columns

  void solve() const {
    static std::vector<double> left_columns, sums;  // used by the holder of the device
    left.check(rows, inner);
    right.check(inner, columns);
    result.check(rows, columns);
    if (bias) bias->check(rows, 1);
    if (sums_of_right) sum_right();
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
                   factor * sums[static_cast<std::size_t>(row)] + (keep == 0 ? 0.0 : keep * result.at(row, column)) +
                       (bias ? bias->at(row, 0) : 0.0));
    }
  }

  void sum_right() const {
    sums_of_right->check(columns, 1);
    for (std::int64_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (std::int64_t i = 0; i < inner; ++i) sum += right.at(i, column);
      sums_of_right->set(column, 0, sum);
    }
  }
};

/// Returns whether cuBLAS multiplies these types with sums of float32.
bool is_supported(cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t compute) {
  if (a != b) return false;
  if (a == CUDA_R_16BF) return compute == CUBLAS_COMPUTE_32F && (c == CUDA_R_16BF || c == CUDA_R_32F);
  return a == CUDA_R_32F && c == CUDA_R_32F;
}

/// The content of a descriptor of cuBLASLt: of a product, or of a matrix.
struct LtDescription {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t operation_a = CUBLAS_OP_N, operation_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cudaDataType bias_type = CUDA_R_32F;
  const void* bias = nullptr;

  cudaDataType type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, stride = 0;
};

template <class Handle>
LtDescription& described(Handle handle) {
  return *reinterpret_cast<LtDescription*>(handle);
}
template <class Handle>
cublasStatus_t make_description(Handle* handle, const LtDescription& description) {
  *handle = reinterpret_cast<Handle>(new LtDescription(description));
  return CUBLAS_STATUS_SUCCESS;
}
template <class Handle>
cublasStatus_t drop_description(Handle handle) {
  delete reinterpret_cast<LtDescription*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t assign(T& target, const void* value, std::size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&target, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

constexpr std::size_t kLtWorkspaceBytes = 4000;

}  // namespace

extern "C" {

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute, cudaDataType_t) {
  return make_description(product, {.compute = compute});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  return drop_description(product);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  LtDescription& of = described(product);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign(of.operation_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign(of.operation_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign(of.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return assign(of.bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign(of.bias, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t stride) {
  return make_description(layout, {.type = type,
                                   .rows = static_cast<std::int64_t>(rows),
                                   .columns = static_cast<std::int64_t>(columns),
                                   .stride = stride});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return drop_description(layout);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return make_description(preference, {});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return drop_description(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
/// Offers an algorithm for products of a multiple of 8, so that the way without one is tested, too.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t output, cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  *count = described(output).rows % 8 == 0 ? 1 : 0;
  if (*count == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  results[0] = {};
  results[0].workspaceSize = kLtWorkspaceBytes;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t layout_a, const void* b, cublasLtMatrixLayout_t layout_b,
                              const void* beta, const void*, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const LtDescription of = described(product), shape_a = described(layout_a), shape_b = described(layout_b),
                      shape_d = described(layout_d);
  const bool transposed_a = of.operation_a != CUBLAS_OP_N, transposed_b = of.operation_b != CUBLAS_OP_N;
  const std::int64_t inner = transposed_a ? shape_a.rows : shape_a.columns;
  const bool adds = of.epilogue == CUBLASLT_EPILOGUE_BIAS, sums = of.epilogue == CUBLASLT_EPILOGUE_BGRADB;
  const bool aligned = (reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) |
                        reinterpret_cast<std::uintptr_t>(d)) %
                           16 ==
                       0;
  if (algorithm == nullptr || workspace_bytes < kLtWorkspaceBytes || *static_cast<const float*>(beta) != 0 ||
      (transposed_b ? shape_b.columns : shape_b.rows) != inner || !aligned)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported(shape_a.type, shape_b.type, shape_d.type, of.compute) || !(adds || sums) ||
      of.bias_type != shape_d.type)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const Matrix result{d, shape_d.type, shape_d.stride, false};
  const Problem problem{{a, shape_a.type, shape_a.stride, transposed_a},
                        {b, shape_b.type, shape_b.stride, transposed_b},
                        result,
                        shape_d.rows,
                        shape_d.columns,
                        inner,
                        *static_cast<const float*>(alpha),
                        0,
                        adds ? std::optional(Matrix{of.bias, of.bias_type, shape_d.rows, false}) : std::nullopt,
                        sums ? std::optional(Matrix{of.bias, of.bias_type, shape_d.columns, false}) : std::nullopt};
  dragonn::emulation::enqueue(stream, [=] {
    check_access(workspace, workspace_bytes, "a product of cuBLASLt with its workspace");
    std::memset(workspace, 0xFF, workspace_bytes);  // as the library may
    problem.solve();
  });
  return CUBLAS_STATUS_SUCCESS;
}

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
