// SPDX-License-Identifier: MIT
/// Matrix products on a GPU: of row-major matrices of float32 or bf16, by cuBLAS. Sums are float32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime.h"
#include "kernels/device_math.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels::cuda {

/// A factor whose rows begin `stride` elements apart; the matrices of a batch begin `next` elements apart.
struct Factor {
  const void* data = nullptr;
  std::int64_t stride = 1;
  bool transposed = false;  ///< the product takes the transpose of the stored matrix
  std::int64_t next = 0;
};

/// A product: result [rows, columns] = a [rows, inner] * b [inner, columns] + keep * result, for every matrix of the
/// batch.
struct Product {
  std::int64_t rows = 1, columns = 1, inner = 1;
  Factor a, b;
  ElementType type = ElementType::kFloat32;  ///< of both factors
  void* result = nullptr;
  ElementType result_type = ElementType::kFloat32;  ///< bf16 only of factors of bf16
  std::int64_t stride = 1;
  std::int64_t next = 0;
  std::int64_t batch = 1;
  float keep = 0;
};

/// Multiplies on the context's stream. `math` is for factors of float32: those of bf16 are multiplied exactly. It gives
/// the same bits for the same shapes on one type of GPU: cuBLAS uses no atomics, and a handle has one stream. @throws
/// DeviceError if cuBLAS refuses.
inline void multiply(Context& here, DeviceMath math, const Product& product) {
  const auto data_type = [](ElementType type) { return type == ElementType::kBf16 ? CUDA_R_16BF : CUDA_R_32F; };
  constexpr cublasComputeType_t kTypes[] = {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32,
                                            CUBLAS_COMPUTE_32F_FAST_16BF};  // in the order of DeviceMath
  const bool exact = product.type == ElementType::kBf16;
  const auto operation = [](const Factor& factor) { return factor.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const float one = 1;
  const Factor &a = product.a, &b = product.b;
  // cuBLAS is column-major: it sees the transposes, and the transpose of a product is that of the swapped factors.
  const cudaDataType type = data_type(product.type);
  check(cublasGemmStridedBatchedEx_64(
            here.blas(), operation(b), operation(a), product.columns, product.rows, product.inner, &one, b.data, type,
            b.stride, b.next, a.data, type, a.stride, a.next, &product.keep, product.result,
            data_type(product.result_type), product.stride, product.next, product.batch,
            exact ? CUBLAS_COMPUTE_32F : kTypes[static_cast<std::size_t>(math)], CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
}

}  // namespace dragonn::kernels::cuda
