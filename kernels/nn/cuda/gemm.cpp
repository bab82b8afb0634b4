// SPDX-License-Identifier: MIT
#include "kernels/nn/cuda/gemm.h"

namespace dragonn::kernels::cuda {
namespace {

cudaDataType data_type(ElementType type) {
  return type == ElementType::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
}

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
  const cudaDataType type = data_type(product.type);
  check(cublasGemmStridedBatchedEx_64(
            here.blas(), operation(b), operation(a), product.columns, product.rows, product.inner, &one, b.data, type,
            b.stride, b.next, a.data, type, a.stride, a.next, &product.keep, product.result,
            data_type(product.result_type), product.stride, product.next, product.batch,
            product.type == ElementType::kBf16 ? CUBLAS_COMPUTE_32F : compute_type(math), CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
}

}  // namespace dragonn::kernels::cuda
