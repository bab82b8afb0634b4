// SPDX-License-Identifier: MIT
#include <algorithm>

#include "kernels/cuda/bf16.h"
#include "kernels/nn/cuda/columns.h"
#include "kernels/nn/cuda/convolution_choice.h"
#include "kernels/nn/cuda/other_convolutions.h"
#include "kernels/nn/sequence_rows.h"

namespace dragonn::kernels::cuda {
namespace {

/// Returns the floats that `count` values of bf16 take.
std::size_t floats_for(std::size_t count) {
  return floats_for_bytes(count * sizeof(Bf16));
}

std::size_t product(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return static_cast<std::size_t>(a * b * c * d);
}

class Bf16Convolution final : public WeightedPlan {
 public:
  Bf16Convolution(const Device& device, const ConvolutionSpec& spec, const ConvolutionChoices& choices)
      : device_(device),
        spec_(spec),
        passes_(device, spec, DeviceMath::kBf16, choices),
        inputs_(product(spec.batch, spec.height, spec.width, spec.channels)),
        patch_(product(spec.vertical.kernel, spec.horizontal.kernel, spec.channels / spec.groups, 1)),
        columns_(static_cast<std::size_t>(spec.output_channels)),
        bias_cut_(product(spec.batch, spec.vertical.outputs(spec.height), spec.horizontal.outputs(spec.width), 1),
                  columns_) {}

  PlanMemory memory() const override {
    const ConvolutionChoices& choices = passes_.choices();
    const std::size_t forward = with_rest(floats_for_bytes(choices.forward.bytes));
    if (!spec_.training) return {0, forward, 0};
    const std::size_t backward = with_rest(
        std::max({floats_for_bytes(choices.backward_weights.bytes), floats_for_bytes(choices.backward_data.bytes),
                  spec_.bias ? aligned_floats(bias_cut_.partials()) : 0}));
    return {floats_for(weights()), forward, backward};
  }

  std::vector<PassDescription> describe() const override { return cuda::describe(spec_, passes_.choices()); }

  void forward(const WeightedForward& arguments) override {
    Context& here = context(device_);
    const Regions at = regions(arguments.scratch);
    // Backward of a training plan reads these again.
    Bf16* const weight = spec_.training ? reinterpret_cast<Bf16*>(arguments.saved.data()) : at.weights;
    swap_axes(arguments.weights, patch_, columns_, at.rest.subview(0, weights()));
    round_to_bf16(here, at.rest.data(), weights(), weight);
    round_to_bf16(here, arguments.input.data(), inputs_, at.input);
    passes_.forward(at.input, weight, at.output, at.rest.data());
    widen_bf16(here, at.output, arguments.output.size(), arguments.output.data());
    if (!arguments.bias.empty())
      add_to_rows(here, arguments.bias.data(), columns_, arguments.output.data(), arguments.output.size());
  }

  void backward(const WeightedBackward& arguments) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    Context& here = context(device_);
    const Regions at = regions(arguments.scratch);
    const View<const float> gradient = arguments.output_gradient;
    round_to_bf16(here, arguments.input.data(), inputs_, at.input);
    round_to_bf16(here, gradient.data(), gradient.size(), at.output);
    passes_.backward_weights(at.input, at.output, at.weights, at.rest.data());
    widen_bf16(here, at.weights, weights(), at.rest.data());
    swap_axes(at.rest.subview(0, weights()), columns_, patch_, arguments.weights_gradient);
    if (!arguments.bias_gradient.empty())
      sum_columns(here, bias_cut_, gradient.data(), at.rest.data(), arguments.bias_gradient.data());
    if (!spec_.input_gradient) return;
    passes_.backward_data(arguments.saved.data(), at.output, at.input, at.rest.data());
    widen_bf16(here, at.input, inputs_, arguments.input_gradient.data());
  }

 private:
  /// The regions of scratch memory. Those of the tensors are for their gradients, too; the rest is the workspace of
  /// cuDNN, and the weights in its order of axes as float32.
  struct Regions {
    Bf16 *input, *output, *weights;
    View<float> rest;
  };

  std::size_t weights() const { return patch_ * columns_; }
  std::size_t outputs() const { return bias_cut_.rows * columns_; }
  std::size_t tensors() const { return floats_for(inputs_) + floats_for(outputs()) + floats_for(weights()); }
  std::size_t with_rest(std::size_t needed) const { return tensors() + std::max(needed, aligned_floats(weights())); }
  Regions regions(View<float> scratch) const {
    float* const output = scratch.data() + floats_for(inputs_);
    float* const weight = output + floats_for(outputs());
    return {reinterpret_cast<Bf16*>(scratch.data()), reinterpret_cast<Bf16*>(output), reinterpret_cast<Bf16*>(weight),
            scratch.subview(tensors(), scratch.size() - tensors())};
  }

  Device device_;
  ConvolutionSpec spec_;
  ConvolutionPasses passes_;
  std::size_t inputs_, patch_, columns_;
  ColumnCut bias_cut_;
};

}  // namespace

std::unique_ptr<WeightedPlan> make_bf16_convolution(const Device& device, const ConvolutionSpec& spec,
                                                    const ConvolutionChoices& choices) {
  return std::make_unique<Bf16Convolution>(device, spec, choices);
}

}  // namespace dragonn::kernels::cuda
