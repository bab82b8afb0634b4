// SPDX-License-Identifier: MIT
#include "bench/large_product.h"

#include <algorithm>

#include "kernels/cuda/runtime.h"
#include "kernels/devices.h"
#include "kernels/typed_view.h"

namespace dragonn::bench {
namespace {

using kernels::Bf16;
using kernels::DeviceMath;

/// Copies a factor to the GPU, rounded to bf16 if it is to be multiplied so.
Buffer<std::byte> place_factor(const std::vector<float>& values, const Device& device, DeviceMath math) {
  if (math != DeviceMath::kBf16) {
    Buffer<std::byte> buffer(values.size() * sizeof(float), device);
    kernels::transfer(kernels::detail::as_bytes(View<const float>(values)), buffer.view());
    return buffer;
  }
  std::vector<Bf16> rounded(values.size());
  std::ranges::transform(values, rounded.begin(), kernels::to_bf16);
  Buffer<std::byte> buffer(rounded.size() * sizeof(Bf16), device);
  kernels::transfer(kernels::detail::as_bytes(View<const Bf16>(rounded)), buffer.view());
  return buffer;
}

class CudaLargeProduct final : public LargeProduct {
 public:
  CudaLargeProduct(const Device& device, DeviceMath math, std::int64_t side)
      : LargeProduct(side),
        device_(device),
        math_(math),
        a_(place_factor(draw_factor(elements(), 1), device, math)),
        b_(place_factor(draw_factor(elements(), 2), device, math)),
        c_(a_.size(), device) {}

  void run() override {
    kernels::cuda::Context& here = kernels::cuda::context(device_);
    const float one = 1, zero = 0;
    const cudaDataType type = math_ == DeviceMath::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
    const cublasComputeType_t compute = math_ == DeviceMath::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const std::int64_t n = side();
    kernels::cuda::check(cublasGemmStridedBatchedEx_64(here.blas(), CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a_.data(),
                                                       type, n, 0, b_.data(), type, n, 0, &zero, c_.data(), type, n, 0,
                                                       1, compute, CUBLAS_GEMM_DEFAULT),
                         "cublasGemmStridedBatchedEx");
    here.synchronize();
  }

 private:
  Device device_;
  DeviceMath math_;
  Buffer<std::byte> a_, b_, c_;
};

[[maybe_unused]] const bool registered = make_large_product.add(
    DeviceType::kCuda, [](const Device& device, DeviceMath math, std::int64_t side) -> std::unique_ptr<LargeProduct> {
      return std::make_unique<CudaLargeProduct>(device, math, side);
    });

}  // namespace
}  // namespace dragonn::bench
