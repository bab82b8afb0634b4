// SPDX-License-Identifier: MIT
#include "kernels/nn/linear.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/nn/cuda/columns.h"
#include "kernels/nn/cuda/gemm.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::kernels::cuda {
namespace {

/// Returns whether memory begins where cuBLASLt expects it. Gradients lie one after the other in their arena, without
/// padding.
bool is_aligned(const float* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % LtProduct::kAlignmentBytes == 0;
}

class CudaLinear final : public Plan {
 public:
  CudaLinear(const Device& device, const LinearSpec& spec)
      : device_(device),
        math_(context(device).math()),
        spec_(spec),
        bias_cut_(static_cast<std::size_t>(spec.batch), static_cast<std::size_t>(spec.outputs)) {
    if (!rounds_weights() || !spec.bias) return;
    biased_ = product(output_product(spec.batch, spec.inputs, spec.outputs));
    if (spec.training) gradients_ = product(weights_gradient_product(spec.batch, spec.inputs, spec.outputs));
  }

  PlanMemory memory() const override {
    const auto workspace = [](const auto& product) {
      return product == nullptr ? 0 : floats_for_bytes(product->workspace_bytes());
    };
    if (!spec_.training) return {0, copy_floats() + workspace(biased_), 0};
    const std::size_t sums = spec_.bias ? aligned_floats(bias_cut_.partials()) : 0;
    return {copy_floats(), workspace(biased_), std::max(sums, workspace(gradients_))};
  }

  void forward(const ForwardPass& pass) override {
    Context& here = context(device_);
    // Backward of a training plan reads this copy again.
    const View<float> copy = spec_.training ? pass.saved : pass.scratch;
    if (rounds_weights())
      convert(pass.parameters[0], TypedView<float>(copy.data(), weight_count(), spec_.type, device_));
    if (biased_ != nullptr) return multiply_with_bias(pass, copy);
    multiply(here, math_,
             {.rows = spec_.batch,
              .columns = spec_.outputs,
              .inner = spec_.inputs,
              .a = {pass.inputs[0].raw(), spec_.inputs},
              .b = {rounds_weights() ? copy.data() : pass.parameters[0].data(), spec_.inputs, true},
              .type = spec_.type,
              .result = pass.output.raw(),
              .result_type = spec_.type,
              .stride = spec_.outputs});
    if (!bias_of(pass.parameters).empty()) add_to_rows(here, bias_of(pass.parameters), pass.output);
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    Context& here = context(device_);
    const TypedView<const float> gradient = pass.output_gradients[0];
    differentiate_parameters(here, pass);
    if (!spec_.input_gradient) return;
    multiply(here, math_,
             {.rows = spec_.batch,
              .columns = spec_.inputs,
              .inner = spec_.outputs,
              .a = {gradient.raw(), spec_.outputs},
              .b = {rounds_weights() ? pass.saved.data() : pass.parameters[0].data(), spec_.inputs},
              .type = spec_.type,
              .result = pass.input_gradients[0].raw(),
              .result_type = spec_.type,
              .stride = spec_.inputs});
  }

 private:
  /// Makes a product; null if cuBLAS has none for the shape.
  std::unique_ptr<LtProduct> product(const LtSpec& spec) const {
    auto made = std::make_unique<LtProduct>(device_, spec);
    return made->exists() ? std::move(made) : nullptr;
  }

  void differentiate_parameters(Context& here, const BackwardPass& pass) const {
    const TypedView<const float> gradient = pass.output_gradients[0];
    float* const weights_gradient = pass.parameter_gradients[0].data();
    if (gradients_ != nullptr && is_aligned(weights_gradient) && is_aligned(bias_of(pass.parameter_gradients).data()))
      return gradients_->run(pass.inputs[0].raw(), gradient.raw(), bias_of(pass.parameter_gradients).data(),
                             weights_gradient, pass.scratch.data());
    multiply(here, math_,
             {.rows = spec_.outputs,
              .columns = spec_.inputs,
              .inner = spec_.batch,
              .a = {gradient.raw(), spec_.outputs, true},
              .b = {pass.inputs[0].raw(), spec_.inputs},
              .type = spec_.type,
              .result = weights_gradient,
              .stride = spec_.inputs});
    if (!bias_of(pass.parameter_gradients).empty())
      sum_columns(here, bias_cut_, gradient, pass.scratch.data(), bias_of(pass.parameter_gradients).data());
  }

  /// Returns whether products read a copy of the weights in bf16.
  bool rounds_weights() const { return spec_.type == ElementType::kBf16; }
  std::size_t weight_count() const { return static_cast<std::size_t>(spec_.inputs * spec_.outputs); }
  std::size_t weight_floats() const { return floats_for_bytes(weight_count() * sizeof(Bf16)); }
  /// Returns the floats of the copies of weights and bias in bf16.
  std::size_t copy_floats() const {
    if (!rounds_weights()) return 0;
    return weight_floats() + (biased_ == nullptr ? 0 : floats_for_bytes(bias_cut_.columns * sizeof(Bf16)));
  }

  /// Computes the output in one kernel. @param copy of the weights, with room for one of the bias behind it.
  void multiply_with_bias(const ForwardPass& pass, View<float> copy) const {
    const TypedView<float> bias(copy.data() + weight_floats(), bias_cut_.columns, spec_.type, device_);
    convert(bias_of(pass.parameters), bias);
    float* workspace = pass.scratch.data() + (spec_.training ? 0 : copy_floats());
    biased_->run(copy.data(), pass.inputs[0].raw(), bias.raw(), pass.output.raw(), workspace);
  }

  Device device_;
  DeviceMath math_;
  LinearSpec spec_;
  ColumnCut bias_cut_;
  std::unique_ptr<LtProduct> biased_, gradients_;  // of bf16 with a bias, where cuBLAS has them
};

[[maybe_unused]] const bool registered = kernels::make_linear_plan.add(DeviceType::kCuda, construct_plan<CudaLinear>);

}  // namespace
}  // namespace dragonn::kernels::cuda
