// SPDX-License-Identifier: MIT
#include "kernels/cuda/elements.h"
#include "kernels/nn/activation.h"

namespace dragonn::kernels::cuda {
namespace {

/// The value of an activation; and its gradient from its output or (kGelu, kGeluTanh) its input, and the output's
/// gradient. Comparisons keep a NaN.
template <Activation kKind>
struct Formula;
template <>
struct Formula<Activation::kRelu> {
  __device__ float operator()(float x) const { return x <= 0 ? 0.0f : x; }
  __device__ float operator()(float y, float g) const { return y > 0 ? g : 0.0f; }
};
template <>
struct Formula<Activation::kClippedRelu> {
  __device__ float operator()(float x) const { return x <= 0 ? 0.0f : x >= kReluClip ? kReluClip : x; }
  __device__ float operator()(float y, float g) const { return y > 0 && y < kReluClip ? g : 0.0f; }
};
template <>
struct Formula<Activation::kTanh> {
  __device__ float operator()(float x) const { return tanhf(x); }
  __device__ float operator()(float y, float g) const { return g * (1 - y * y); }
};
template <>
struct Formula<Activation::kSigmoid> {
  __device__ float operator()(float x) const { return 1 / (1 + expf(-x)); }
  __device__ float operator()(float y, float g) const { return g * y * (1 - y); }
};
template <>
struct Formula<Activation::kGelu> {
  static constexpr float kInverseRootOfTwo = 0.70710678118654752f;
  static constexpr float kNormalPeak = 0.39894228040143268f;  // 1 / sqrt(2 pi)
  static __device__ float below(float x) { return 0.5f * (1 + erff(x * kInverseRootOfTwo)); }
  __device__ float operator()(float x) const { return x * below(x); }
  __device__ float operator()(float x, float g) const { return g * (below(x) + x * kNormalPeak * expf(-0.5f * x * x)); }
};
/// x * below(x), below(x) = (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + kCubic x^3).
/// Source: Hendrycks and Gimpel, arXiv:1606.08415, section 2.
template <>
struct Formula<Activation::kGeluTanh> {
  static constexpr float kRoot = 0.79788456080286536f;  // sqrt(2 / pi)
  static constexpr float kCubic = 0.044715f;
  static __device__ float below(float x) { return 0.5f * (1 + tanhf(kRoot * x * (1 + kCubic * x * x))); }
  __device__ float operator()(float x) const { return x * below(x); }
  __device__ float operator()(float x, float g) const {
    const float share = below(x);  // whose slope is 2 share (1 - share) u'
    return g * (share + x * 2 * share * (1 - share) * kRoot * (1 + 3 * kCubic * x * x));
  }
};

template <Activation kKind>
class CudaActivation final : public Plan {
 public:
  void forward(const ForwardPass& pass) override { map("activation", Formula<kKind>{}, pass.output, pass.inputs[0]); }
  void backward(const BackwardPass& pass) override {
    map("activation_backward", Formula<kKind>{}, pass.input_gradients[0],
        activation_backward_reads_input(kKind) ? pass.inputs[0] : pass.output, pass.output_gradients[0]);
  }
};

template <Activation kKind>
std::unique_ptr<Plan> make_as() {
  return std::make_unique<CudaActivation<kKind>>();
}

std::unique_ptr<Plan> make(const Device&, Activation activation, std::size_t) {
  constexpr decltype(&make_as<Activation::kRelu>) kFactories[] = {
      make_as<Activation::kRelu>, make_as<Activation::kClippedRelu>,
      make_as<Activation::kTanh>, make_as<Activation::kSigmoid>,
      make_as<Activation::kGelu>, make_as<Activation::kGeluTanh>};  // in the order of Activation
  return kFactories[static_cast<std::size_t>(activation)]();
}

[[maybe_unused]] const bool registered = kernels::make_activation_plan.add(DeviceType::kCuda, make);

}  // namespace
}  // namespace dragonn::kernels::cuda
