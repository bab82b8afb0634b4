// SPDX-License-Identifier: MIT
#include "kernels/nn/linear.h"

#include "kernels/nn/cuda/columns.h"
#include "kernels/nn/cuda/gemm.h"

namespace dragonn::kernels::cuda {
namespace {

class CudaLinear final : public WeightedPlan {
 public:
  CudaLinear(const Device& device, const LinearSpec& spec)
      : device_(device),
        math_(context(device).math()),
        spec_(spec),
        bias_cut_(static_cast<std::size_t>(spec.batch), static_cast<std::size_t>(spec.outputs)) {}

  PlanMemory memory() const override {
    return {0, 0, spec_.training && spec_.bias ? aligned_floats(bias_cut_.partials()) : 0};
  }

  void forward(const WeightedForward& arguments) override {
    Context& here = context(device_);
    multiply(here, math_,
             {.rows = spec_.batch,
              .columns = spec_.outputs,
              .inner = spec_.inputs,
              .a = {arguments.input.data(), spec_.inputs},
              .b = {arguments.weights.data(), spec_.inputs, true},
              .result = arguments.output.data(),
              .stride = spec_.outputs});
    if (!arguments.bias.empty())
      add_to_rows(here, arguments.bias.data(), bias_cut_.columns, arguments.output.data(), arguments.output.size());
  }

  void backward(const WeightedBackward& arguments) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    Context& here = context(device_);
    const float* gradient = arguments.output_gradient.data();
    multiply(here, math_,
             {.rows = spec_.outputs,
              .columns = spec_.inputs,
              .inner = spec_.batch,
              .a = {gradient, spec_.outputs, true},
              .b = {arguments.input.data(), spec_.inputs},
              .result = arguments.weights_gradient.data(),
              .stride = spec_.inputs});
    if (!arguments.bias_gradient.empty())
      sum_columns(here, bias_cut_, gradient, arguments.scratch.data(), arguments.bias_gradient.data());
    if (!spec_.input_gradient) return;
    multiply(here, math_,
             {.rows = spec_.batch,
              .columns = spec_.inputs,
              .inner = spec_.outputs,
              .a = {gradient, spec_.outputs},
              .b = {arguments.weights.data(), spec_.inputs},
              .result = arguments.input_gradient.data(),
              .stride = spec_.inputs});
  }

 private:
  Device device_;
  DeviceMath math_;
  LinearSpec spec_;
  ColumnCut bias_cut_;
};

[[maybe_unused]] const bool registered = kernels::make_linear_plan.add(DeviceType::kCuda, construct_plan<CudaLinear>);

}  // namespace
}  // namespace dragonn::kernels::cuda
