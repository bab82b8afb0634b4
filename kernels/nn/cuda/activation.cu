// SPDX-License-Identifier: MIT
#include "kernels/cuda/map.h"
#include "kernels/nn/activation.h"

namespace dragonn::kernels::cuda {
namespace {

/// The value of an activation, and its slope from its output or (kGelu) its input. Comparisons keep a NaN.
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

template <Activation kKind>
struct Value {
  __device__ float operator()(float x) const { return Formula<kKind>::value(x); }
};
template <Activation kKind>
struct Gradient {
  __device__ float operator()(float value, float gradient) const { return Formula<kKind>::gradient(value, gradient); }
};

template <Activation kKind>
class CudaActivation final : public Plan {
 public:
  void forward(const ForwardPass& pass) override { map("activation", Value<kKind>{}, pass.output, pass.inputs[0]); }
  void backward(const BackwardPass& pass) override {
    map("activation_backward", Gradient<kKind>{}, pass.input_gradients[0],
        activation_backward_reads_input(kKind) ? pass.inputs[0] : pass.output, pass.output_gradients[0]);
  }
};

template <Activation kKind>
std::unique_ptr<Plan> make_as() {
  return std::make_unique<CudaActivation<kKind>>();
}

std::unique_ptr<Plan> make(const Device&, Activation activation, std::size_t) {
  constexpr decltype(&make_as<Activation::kRelu>) kFactories[] = {
      make_as<Activation::kRelu>, make_as<Activation::kClippedRelu>, make_as<Activation::kTanh>,
      make_as<Activation::kSigmoid>, make_as<Activation::kGelu>};  // in the order of Activation
  return kFactories[static_cast<std::size_t>(activation)]();
}

[[maybe_unused]] const bool registered = kernels::make_activation_plan.add(DeviceType::kCuda, make);

}  // namespace
}  // namespace dragonn::kernels::cuda
