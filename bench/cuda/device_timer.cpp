// SPDX-License-Identifier: MIT
#include "bench/device_timer.h"

#include <algorithm>
#include <memory>
#include <type_traits>

#include "kernels/cuda/runtime.h"
#include "kernels/devices.h"
#include "kernels/typed_view.h"

namespace dragonn::bench {
namespace {

using kernels::Bf16;
using kernels::DeviceMath;
using kernels::cuda::check;
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, cudaError_t (*)(cudaEvent_t)>;

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return {event, cudaEventDestroy};
}

double time_on_gpu(const Device& device, const std::function<void()>& work) {
  kernels::cuda::Context& here = kernels::cuda::context(device);
  const Event start = make_event(), end = make_event();
  here.synchronize();
  check(cudaEventRecord(start.get(), here.stream()), "cudaEventRecord");
  work();
  check(cudaEventRecord(end.get(), here.stream()), "cudaEventRecord");
  here.synchronize();
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start.get(), end.get()), "cudaEventElapsedTime");
  return 1e-3 * static_cast<double>(milliseconds);
}

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

std::function<void()> make_product_on_gpu(const Device& device, DeviceMath math, std::int64_t n) {
  struct Matrices {
    Buffer<std::byte> a, b, c;
  };
  // A function can be copied, and the memory of a GPU cannot.
  auto matrices = std::make_shared<Matrices>(
      Matrices{place_factor(draw_factor(n, 1), device, math), place_factor(draw_factor(n, 2), device, math), {}});
  matrices->c = Buffer<std::byte>(matrices->a.size(), device);
  return [matrices, device, math, n] {
    kernels::cuda::Context& here = kernels::cuda::context(device);
    const float one = 1, zero = 0;
    const cudaDataType type = math == DeviceMath::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
    const cublasComputeType_t compute = math == DeviceMath::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    auto& [a, b, c] = *matrices;
    check(cublasGemmStridedBatchedEx_64(here.blas(), CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a.data(), type, n, 0,
                                        b.data(), type, n, 0, &zero, c.data(), type, n, 0, 1, compute,
                                        CUBLAS_GEMM_DEFAULT),
          "cublasGemmStridedBatchedEx");
    here.synchronize();
  };
}

[[maybe_unused]] const bool registered =
    seconds_on.add(DeviceType::kCuda, time_on_gpu) && make_large_product.add(DeviceType::kCuda, make_product_on_gpu);

}  // namespace
}  // namespace dragonn::bench
