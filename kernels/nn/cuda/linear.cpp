// SPDX-License-Identifier: MIT
#include "kernels/nn/linear.h"

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
        bias_cut_(static_cast<std::size_t>(spec.batch), static_cast<std::size_t>(spec.outputs)) {}

  PlanMemory memory() const override {
    const std::size_t weights = rounds_weights() ? floats_for_bytes(weight_count() * sizeof(Bf16)) : 0;
    if (!spec_.training) return {0, weights, 0};
    return {weights, 0, spec_.bias ? aligned_floats(bias_cut_.partials()) : 0};
  }

  void forward(const WeightedForward& arguments) override {
    Context& here = context(device_);
    // Backward of a training plan reads this copy again.
    const View<float> copy = spec_.training ? arguments.saved : arguments.scratch;
    if (rounds_weights())
      convert(arguments.weights, TypedView<float>(copy.data(), weight_count(), spec_.type, device_));
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

  Device device_;
  DeviceMath math_;
  LinearSpec spec_;
  ColumnCut bias_cut_;
};

[[maybe_unused]] const bool registered = kernels::make_linear_plan.add(DeviceType::kCuda, construct_plan<CudaLinear>);

}  // namespace
}  // namespace dragonn::kernels::cuda
