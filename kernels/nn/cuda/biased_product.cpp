// SPDX-License-Identifier: MIT
#include "kernels/nn/cuda/biased_product.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr std::uint32_t kAlignmentBytes = 16;                       // of all matrices; cuBLAS would expect 256
constexpr std::size_t kMostWorkspaceBytes = std::size_t{32} << 20;  // what NVIDIA recommends from Hopper on

/// Returns cuBLAS's handle, which is one of cuBLASLt, too.
cublasLtHandle_t handle(Context& here) {
  return reinterpret_cast<cublasLtHandle_t>(here.blas());
}

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
}

template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

void describe(cublasLtMatrixLayout_t* layout, std::int64_t rows, std::int64_t columns) {
  check(cublasLtMatrixLayoutCreate(layout, CUDA_R_16BF, static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), rows),
        "cublasLtMatrixLayoutCreate");
}

}  // namespace

// cuBLAS is column-major: it sees the transposes of all matrices, output^T = weights * input^T, and the bias along the
// columns of output^T.
BiasedProduct::BiasedProduct(const Device& device, std::int64_t rows, std::int64_t inner, std::int64_t columns)
    : device_(device) {
  check(cublasLtMatmulDescCreate(product_.place(), CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  set(product_.get(), CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(product_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
  describe(weights_.place(), inner, columns);
  describe(input_.place(), inner, rows);
  describe(output_.place(), columns, rows);
  LtDescriptor<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
  check(cublasLtMatmulPreferenceCreate(preference.place()), "cublasLtMatmulPreferenceCreate");
  set(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspaceBytes);
  for (const auto alignment : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference.get(), alignment, kAlignmentBytes);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle(context(device)), product_.get(), weights_.get(), input_.get(),
                                     output_.get(), output_.get(), preference.get(), 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) return;
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  if (found.state != CUBLAS_STATUS_SUCCESS) return;
  algorithm_ = found.algo;
  workspace_bytes_ = found.workspaceSize;
}

void BiasedProduct::run(const void* input, const void* weights, const void* bias, void* output, void* workspace) const {
  Context& here = context(device_);
  set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const float one = 1, zero = 0;
  check(cublasLtMatmul(handle(here), product_.get(), &one, weights, weights_.get(), input, input_.get(), &zero, output,
                       output_.get(), output, output_.get(), &*algorithm_, workspace, workspace_bytes_, here.stream()),
        "cublasLtMatmul");
}

}  // namespace dragonn::kernels::cuda
