// SPDX-License-Identifier: MIT
#include "kernels/nn/cuda/gemm.h"

namespace dragonn::kernels::cuda {
namespace {

cublasComputeType_t compute_type(DeviceMath math) {
  constexpr cublasComputeType_t kTypes[] = {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32,
                                            CUBLAS_COMPUTE_32F_FAST_16BF};  // in the order of DeviceMath
  return kTypes[static_cast<std::size_t>(math)];
}

}  // namespace

void multiply(Context& here, DeviceMath math, const Product& product) {
  const auto operation = [](const Factor& factor) { return factor.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const float one = 1;
  const Factor &a = product.a, &b = product.b;
  // cuBLAS is column-major: it sees the transposes, and the transpose of a product is that of the swapped factors.
  check(cublasGemmStridedBatchedEx_64(here.blas(), operation(b), operation(a), product.columns, product.rows,
                                      product.inner, &one, b.data, CUDA_R_32F, b.stride, b.next, a.data, CUDA_R_32F,
                                      a.stride, a.next, &product.keep, product.result, CUDA_R_32F, product.stride,
                                      product.next, product.batch, compute_type(math), CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
}

}  // namespace dragonn::kernels::cuda
