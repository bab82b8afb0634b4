// SPDX-License-Identifier: MIT
#include "kernels/nn/linear.h"

#include <memory>

#include "kernels/nn/cuda/biased_product.h"
#include "kernels/nn/cuda/columns.h"
#include "kernels/nn/cuda/gemm.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::kernels::cuda {
namespace {

class CudaLinear final : public WeightedPlan {
 public:
  CudaLinear(const Device& device, const LinearSpec& spec)
      : device_(device),
        math_(context(device).math()),
        spec_(spec),
        bias_cut_(static_cast<std::size_t>(spec.batch), static_cast<std::size_t>(spec.outputs)) {
    if (!rounds_weights() || !spec.bias) return;
    biased_ = std::make_unique<BiasedProduct>(device, spec.batch, spec.inputs, spec.outputs);
    if (!biased_->exists()) biased_.reset();
  }

  PlanMemory memory() const override {
    const std::size_t workspace = biased_ == nullptr ? 0 : floats_for_bytes(biased_->workspace_bytes());
    if (!spec_.training) return {0, copy_floats() + workspace, 0};
    return {copy_floats(), workspace, spec_.bias ? aligned_floats(bias_cut_.partials()) : 0};
  }

  void forward(const WeightedForward& arguments) override {
    Context& here = context(device_);
    // Backward of a training plan reads this copy again.
    const View<float> copy = spec_.training ? arguments.saved : arguments.scratch;
    if (rounds_weights())
      convert(arguments.weights, TypedView<float>(copy.data(), weight_count(), spec_.type, device_));
    if (biased_ != nullptr) return multiply_with_bias(arguments, copy);
    multiply(here, math_,
             {.rows = spec_.batch,
              .columns = spec_.outputs,
              .inner = spec_.inputs,
              .a = {arguments.input.raw(), spec_.inputs},
              .b = {rounds_weights() ? copy.data() : arguments.weights.data(), spec_.inputs, true},
              .type = spec_.type,
              .result = arguments.output.raw(),
              .result_type = spec_.type,
              .stride = spec_.outputs});
    if (!arguments.bias.empty()) add_to_rows(here, arguments.bias, arguments.output);
  }

  void backward(const WeightedBackward& arguments) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    Context& here = context(device_);
    const TypedView<const float> gradient = arguments.output_gradient;
    multiply(here, math_,
             {.rows = spec_.outputs,
              .columns = spec_.inputs,
              .inner = spec_.batch,
              .a = {gradient.raw(), spec_.outputs, true},
              .b = {arguments.input.raw(), spec_.inputs},
              .type = spec_.type,
              .result = arguments.weights_gradient.data(),
              .stride = spec_.inputs});
    if (!arguments.bias_gradient.empty())
      sum_columns(here, bias_cut_, gradient, arguments.scratch.data(), arguments.bias_gradient.data());
    if (!spec_.input_gradient) return;
    multiply(here, math_,
             {.rows = spec_.batch,
              .columns = spec_.inputs,
              .inner = spec_.outputs,
              .a = {gradient.raw(), spec_.outputs},
              .b = {rounds_weights() ? arguments.saved.data() : arguments.weights.data(), spec_.inputs},
              .type = spec_.type,
              .result = arguments.input_gradient.raw(),
              .result_type = spec_.type,
              .stride = spec_.inputs});
  }

 private:
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
  void multiply_with_bias(const WeightedForward& arguments, View<float> copy) const {
    const TypedView<float> bias(copy.data() + weight_floats(), bias_cut_.columns, spec_.type, device_);
    convert(arguments.bias, bias);
    float* workspace = arguments.scratch.data() + (spec_.training ? 0 : copy_floats());
    biased_->run(arguments.input.raw(), copy.data(), bias.raw(), arguments.output.raw(), workspace);
  }

  Device device_;
  DeviceMath math_;
  LinearSpec spec_;
  ColumnCut bias_cut_;
  std::unique_ptr<BiasedProduct> biased_;  // of bf16 with a bias, where cuBLAS has it
};

[[maybe_unused]] const bool registered = kernels::make_linear_plan.add(DeviceType::kCuda, construct_plan<CudaLinear>);

}  // namespace
}  // namespace dragonn::kernels::cuda
