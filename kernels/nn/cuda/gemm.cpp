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

namespace {

constexpr std::size_t kMaxWorkspaceBytes = std::size_t{32} << 20;  // what NVIDIA recommends from Hopper on

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

void describe(cublasLtMatrixLayout_t* layout, cudaDataType type, std::int64_t rows, std::int64_t columns) {
  check(cublasLtMatrixLayoutCreate(layout, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                   rows),
        "cublasLtMatrixLayoutCreate");
}

cublasOperation_t operation(const LtSpec::Factor& factor) {
  return factor.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

// cuBLAS is column-major: it sees the transposes of all matrices, output^T = weights * input^T, and the bias along the
// columns of output^T.
LtSpec output_product(std::int64_t batch, std::int64_t inputs, std::int64_t outputs) {
  return {.left = {inputs, outputs, true},
          .right = {inputs, batch, false},
          .rows = outputs,
          .columns = batch,
          .result_type = CUDA_R_16BF,
          .epilogue = CUBLASLT_EPILOGUE_BIAS};
}

// weights_gradient^T = input^T * gradient, and the sums of the right factor over the batch.
LtSpec weights_gradient_product(std::int64_t batch, std::int64_t inputs, std::int64_t outputs) {
  return {.left = {inputs, batch, false},
          .right = {outputs, batch, true},
          .rows = inputs,
          .columns = outputs,
          .result_type = CUDA_R_32F,
          .epilogue = CUBLASLT_EPILOGUE_BGRADB};
}

LtProduct::LtProduct(const Device& device, const LtSpec& spec) : device_(device) {
  check(cublasLtMatmulDescCreate(product_.place(), CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  set(product_.get(), CUBLASLT_MATMUL_DESC_TRANSA, operation(spec.left));
  set(product_.get(), CUBLASLT_MATMUL_DESC_TRANSB, operation(spec.right));
  set(product_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, spec.epilogue);
  set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, spec.result_type);
  describe(left_.place(), CUDA_R_16BF, spec.left.rows, spec.left.columns);
  describe(right_.place(), CUDA_R_16BF, spec.right.rows, spec.right.columns);
  describe(result_.place(), spec.result_type, spec.rows, spec.columns);
  LtDescriptor<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
  check(cublasLtMatmulPreferenceCreate(preference.place()), "cublasLtMatmulPreferenceCreate");
  set(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspaceBytes);
  for (const auto alignment : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference.get(), alignment, kAlignmentBytes);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle(context(device)), product_.get(), left_.get(), right_.get(), result_.get(),
                                     result_.get(), preference.get(), 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) return;
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  if (found.state != CUBLAS_STATUS_SUCCESS) return;
  algorithm_ = found.algo;
  workspace_bytes_ = found.workspaceSize;
}

void LtProduct::run(const void* left, const void* right, const void* vector, void* result, void* workspace) const {
  Context& here = context(device_);
  set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  const float one = 1, zero = 0;
  check(cublasLtMatmul(handle(here), product_.get(), &one, left, left_.get(), right, right_.get(), &zero, result,
                       result_.get(), result, result_.get(), &*algorithm_, workspace, workspace_bytes_, here.stream()),
        "cublasLtMatmul");
}

}  // namespace dragonn::kernels::cuda
