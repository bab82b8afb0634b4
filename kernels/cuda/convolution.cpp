// SPDX-License-Identifier: MIT
#include "kernels/convolution.h"

#include <algorithm>

#include "kernels/cuda/columns.h"
#include "kernels/cuda/convolution_choice.h"
#include "kernels/cuda/patch_convolution.h"
#include "kernels/swap_axes.h"

namespace dragonn::kernels::cuda {
namespace {

/// Weights are HWIO outside: [patch, outputs]. cuDNN's KRSC is the transpose, [outputs, patch].
class CudnnConvolution final : public WeightedPlan {
 public:
  CudnnConvolution(const Device& device, const ConvolutionSpec& spec, DeviceMath math,
                   const ConvolutionChoices& choices)
      : device_(device),
        spec_(spec),
        described_(spec, math),
        choices_(choices),
        patch_(static_cast<std::size_t>(spec.vertical.kernel * spec.horizontal.kernel * (spec.channels / spec.groups))),
        outputs_(static_cast<std::size_t>(spec.output_channels)),
        bias_cut_(static_cast<std::size_t>(spec.batch * spec.vertical.outputs(spec.height) *
                                           spec.horizontal.outputs(spec.width)),
                  outputs_) {}

  PlanMemory memory() const override {
    const std::size_t weights = aligned_floats(patch_ * outputs_);
    if (!spec_.training) return {0, weights + floats_for_bytes(choices_.forward.bytes), 0};
    return {weights, floats_for_bytes(choices_.forward.bytes),
            std::max({weights + floats_for_bytes(choices_.backward_weights.bytes),
                      floats_for_bytes(choices_.backward_data.bytes),
                      spec_.bias ? aligned_floats(bias_cut_.partials()) : 0})};
  }

  void forward(const WeightedForward& arguments) override {
    Context& here = context(device_);
    const std::size_t size = patch_ * outputs_;
    // Of training backward reads this copy again.
    const View<float> weights = (spec_.training ? arguments.saved : arguments.scratch).subview(0, size);
    float* workspace = arguments.scratch.data() + (spec_.training ? 0 : aligned_floats(size));
    swap_axes(arguments.weights, patch_, outputs_, weights);
    check(cudnnConvolutionForward(here.dnn(), &kOne, described_.input.get(), arguments.input.data(),
                                  described_.filter.get(), weights.data(), described_.convolution.get(),
                                  choices_.forward.algorithm, workspace, choices_.forward.bytes, &kZero,
                                  described_.output.get(), arguments.output.data()),
          "cudnnConvolutionForward");
    if (!arguments.bias.empty())
      add_to_rows(here, arguments.bias.data(), outputs_, arguments.output.data(), arguments.output.size());
  }

  void backward(const WeightedBackward& arguments) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    Context& here = context(device_);
    const float* gradient = arguments.output_gradient.data();
    const std::size_t size = patch_ * outputs_;
    const View<float> transposed = arguments.scratch.subview(0, size);
    check(cudnnConvolutionBackwardFilter(
              here.dnn(), &kOne, described_.input.get(), arguments.input.data(), described_.output.get(), gradient,
              described_.convolution.get(), choices_.backward_weights.algorithm,
              arguments.scratch.data() + aligned_floats(size), choices_.backward_weights.bytes, &kZero,
              described_.filter.get(), transposed.data()),
          "cudnnConvolutionBackwardFilter");
    swap_axes(transposed, outputs_, patch_, arguments.weights_gradient);
    if (!arguments.bias_gradient.empty())
      sum_columns(here, bias_cut_, gradient, arguments.scratch.data(), arguments.bias_gradient.data());
    if (!spec_.input_gradient) return;
    check(cudnnConvolutionBackwardData(
              here.dnn(), &kOne, described_.filter.get(), arguments.saved.data(), described_.output.get(), gradient,
              described_.convolution.get(), choices_.backward_data.algorithm, arguments.scratch.data(),
              choices_.backward_data.bytes, &kZero, described_.input.get(), arguments.input_gradient.data()),
          "cudnnConvolutionBackwardData");
  }

 private:
  static constexpr float kOne = 1, kZero = 0;

  Device device_;
  ConvolutionSpec spec_;
  ConvolutionDescriptors described_;
  ConvolutionChoices choices_;
  std::size_t patch_, outputs_;
  ColumnCut bias_cut_;
};

/// cuDNN pads both ends of an axis alike, and so knows no overhanging window.
bool overhangs(const Window& window, std::int64_t inputs) {
  return window.outputs(inputs) != (inputs + 2 * window.padding - window.kernel) / window.stride + 1;
}

std::unique_ptr<WeightedPlan> make(const Device& device, const ConvolutionSpec& spec) {
  const DeviceMath math = context(device).math();
  const bool fits_cudnn = math != DeviceMath::kBf16 &&  // whose tensors would have to be bf16, too
                          !overhangs(spec.vertical, spec.height) && !overhangs(spec.horizontal, spec.width);
  const auto choices = fits_cudnn ? choose_algorithms(context(device), spec, math) : std::nullopt;
  if (!choices) return make_patch_convolution(device, spec, math);
  return std::make_unique<CudnnConvolution>(device, spec, math, *choices);
}

[[maybe_unused]] const bool registered = convolution_table().add(DeviceType::kCuda, make);

}  // namespace
}  // namespace dragonn::kernels::cuda
