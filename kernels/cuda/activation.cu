// SPDX-License-Identifier: MIT
#include "kernels/activation.h"
#include "kernels/cuda/runtime.h"

namespace dragonn::kernels::cuda {
namespace {

/// Every activation: its value, and its slope from its output or (kGelu) its input. Comparisons keep a NaN.
template <Activation kKind>
struct Formula;
template <>
struct Formula<Activation::kRelu> {
  static __device__ float value(float x) { return x <= 0 ? 0.0f : x; }
  static __device__ float gradient(float y, float g) { return y > 0 ? g : 0.0f; }
};
template <>
struct Formula<Activation::kClippedRelu> {
  static __device__ float value(float x) { return x <= 0 ? 0.0f : x >= kReluClip ? kReluClip : x; }
  static __device__ float gradient(float y, float g) { return y > 0 && y < kReluClip ? g : 0.0f; }
};
template <>
struct Formula<Activation::kTanh> {
  static __device__ float value(float x) { return tanhf(x); }
  static __device__ float gradient(float y, float g) { return g * (1 - y * y); }
};
template <>
struct Formula<Activation::kSigmoid> {
  static __device__ float value(float x) { return 1 / (1 + expf(-x)); }
  static __device__ float gradient(float y, float g) { return g * y * (1 - y); }
};
template <>
struct Formula<Activation::kGelu> {
  static constexpr float kInverseRootOfTwo = 0.70710678118654752f;
  static constexpr float kNormalPeak = 0.39894228040143268f;  // 1 / sqrt(2 pi)
  static __device__ float below(float x) { return 0.5f * (1 + erff(x * kInverseRootOfTwo)); }
  static __device__ float value(float x) { return x * below(x); }
  static __device__ float gradient(float x, float g) { return g * (below(x) + x * kNormalPeak * expf(-0.5f * x * x)); }
};

// In place too: an element is read before it is written, by the same thread.
template <Activation kKind>
__global__ void forward_kernel(const float* input, float* output, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) output[i] = Formula<kKind>::value(input[i]);
}
template <Activation kKind>
__global__ void backward_kernel(const float* value, const float* output_gradient, float* input_gradient,
                                std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride())
    input_gradient[i] = Formula<kKind>::gradient(value[i], output_gradient[i]);
}

template <Activation kKind>
class CudaActivation final : public ActivationPlan {
 public:
  explicit CudaActivation(const Device& device) : device_(device) {}

  void forward(View<const float> input, View<float> output) override {
    const Context& here = context(device_);
    forward_kernel<kKind><<<here.blocks(input.size(), kThreads), kThreads, 0, here.stream()>>>(
        input.data(), output.data(), input.size());
    check_launch("activation");
  }
  void backward(View<const float> value, View<const float> output_gradient, View<float> input_gradient) override {
    const Context& here = context(device_);
    backward_kernel<kKind><<<here.blocks(value.size(), kThreads), kThreads, 0, here.stream()>>>(
        value.data(), output_gradient.data(), input_gradient.data(), value.size());
    check_launch("activation_backward");
  }

 private:
  Device device_;
};

std::unique_ptr<ActivationPlan> make(const Device& device, Activation activation, std::size_t) {
  switch (activation) {
    case Activation::kRelu:
      return std::make_unique<CudaActivation<Activation::kRelu>>(device);
    case Activation::kClippedRelu:
      return std::make_unique<CudaActivation<Activation::kClippedRelu>>(device);
    case Activation::kTanh:
      return std::make_unique<CudaActivation<Activation::kTanh>>(device);
    case Activation::kSigmoid:
      return std::make_unique<CudaActivation<Activation::kSigmoid>>(device);
    case Activation::kGelu:
      return std::make_unique<CudaActivation<Activation::kGelu>>(device);
  }
  throw Error("unknown activation");
}

[[maybe_unused]] const bool registered = activation_table().add(DeviceType::kCuda, make);

}  // namespace
}  // namespace dragonn::kernels::cuda
