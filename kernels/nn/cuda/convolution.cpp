// SPDX-License-Identifier: MIT
#include "kernels/nn/convolution.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "kernels/cuda/runtime.h"
#include "kernels/nn/cuda/columns.h"
#include "kernels/nn/cuda/convolution_choice.h"
#include "kernels/nn/sequence_rows.h"

namespace dragonn::kernels::cuda {
namespace {

/// Convolution by cuDNN, which takes tensors of one type. The caller's weights are HWIO in float32: [patch, outputs].
/// cuDNN's KRSC is the transpose, [outputs, patch], in the type of the tensors; so is the gradient that it computes.
class CudnnConvolution final : public Plan {
 public:
  CudnnConvolution(const Device& device, const ConvolutionSpec& spec, std::shared_ptr<const ConvolutionPasses> passes)
      : device_(device),
        spec_(spec),
        passes_(std::move(passes)),
        bytes_(passes_->workspace_bytes()),
        patch_(static_cast<std::size_t>(spec.vertical.kernel * spec.horizontal.kernel * (spec.channels / spec.groups))),
        outputs_(static_cast<std::size_t>(spec.output_channels)),
        bias_cut_(static_cast<std::size_t>(spec.output_pixels()), outputs_) {}

  PlanMemory memory() const override {
    const std::size_t weights = weight_floats();
    if (!spec_.training) return {0, weights + floats_for_bytes(bytes_.forward), 0};
    return {weights, floats_for_bytes(bytes_.forward),
            std::max({weights + floats_for_bytes(bytes_.backward_weights), floats_for_bytes(bytes_.backward_data),
                      spec_.bias ? aligned_floats(bias_cut_.partials()) : 0})};
  }

  std::vector<PassDescription> describe() const override { return passes_->describe(); }

  void forward(const ForwardPass& pass) override {
    // Backward of a training plan reads this copy again.
    const TypedView<float> weights = weights_in(spec_.training ? pass.saved : pass.scratch);
    float* workspace = pass.scratch.data() + (spec_.training ? 0 : weight_floats());
    swap_axes(pass.parameters[0], patch_, outputs_, weights);
    const float* bias =
        passes_->adds_bias() && !bias_of(pass.parameters).empty() ? bias_of(pass.parameters).data() : nullptr;
    passes_->forward({elements(pass.inputs[0]), weights.raw(), bias, elements(pass.output)}, workspace);
    if (bias == nullptr && !bias_of(pass.parameters).empty())
      add_to_rows(context(device_), bias_of(pass.parameters), pass.output);
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    const void* gradient = elements(pass.output_gradients[0]);
    const TypedView<float> transposed = weights_in(pass.scratch);
    passes_->backward_weights(elements(pass.inputs[0]), gradient, transposed.raw(),
                              pass.scratch.data() + weight_floats());
    swap_axes(transposed, outputs_, patch_, pass.parameter_gradients[0]);
    if (!bias_of(pass.parameter_gradients).empty())
      sum_columns(context(device_), bias_cut_, pass.output_gradients[0], pass.scratch.data(),
                  bias_of(pass.parameter_gradients).data());
    if (!spec_.input_gradient) return;
    passes_->backward_data(pass.saved.data(), gradient, elements(pass.input_gradients[0]), pass.scratch.data());
  }

 private:
  std::size_t weight_floats() const { return floats_for_bytes(patch_ * outputs_ * bytes_of(spec_.type)); }
  TypedView<float> weights_in(View<float> memory) const {
    return {memory.data(), patch_ * outputs_, spec_.type, device_};
  }
  const void* elements(TypedView<const float> view) const {
    DRAGONN_CHECK(view.type() == spec_.type, "a convolution of elements of another type than it was planned for");
    return view.raw();
  }
  void* elements(TypedView<float> view) const {
    elements(TypedView<const float>(view));
    return view.raw();
  }

  Device device_;
  ConvolutionSpec spec_;
  std::shared_ptr<const ConvolutionPasses> passes_;
  PassBytes bytes_;
  std::size_t patch_, outputs_;
  ColumnCut bias_cut_;
};

/// Returns whether a window overhangs the end of the axis. cuDNN pads both ends of an axis alike, and so has no such
/// window.
bool overhangs(const Window& window, std::int64_t inputs) {
  return window.outputs(inputs) != (inputs + 2 * window.padding - window.kernel) / window.stride + 1;
}

/// Warns that a convolution runs in a slower way, once per shape and way.
void warn_of(const char* way, const ConvolutionSpec& spec, const std::string& reason) {
  warn_of_slower_way(
      fmt::format("a convolution of {} x {} x {} to {} channels, window {} x {}, runs {}", spec.height, spec.width,
                  spec.channels, spec.output_channels, spec.vertical.kernel, spec.horizontal.kernel, way),
      reason);
}

/// Returns the precision of a convolution: tensors of bf16 are multiplied as they are. cuDNN rounds float32 to TF32 at
/// most.
DeviceMath math_for(const ConvolutionSpec& spec) {
  if (spec.type == ElementType::kBf16) return DeviceMath::kBf16;
  return spec.math == DeviceMath::kBf16 ? DeviceMath::kTf32 : spec.math;
}

/// Returns the graphs of a convolution, or null where the older calls of cuDNN are to do it.
std::shared_ptr<const ConvolutionPasses> graphs_for(const Device& device, const ConvolutionSpec& spec) {
  if (spec.type != ElementType::kBf16 || spec.groups != 1) return nullptr;
  std::string obstacle;
  auto graphs = make_convolution_graphs(device, spec, obstacle);
  if (graphs == nullptr) warn_of("without cuDNN's graphs", spec, obstacle);
  return graphs;
}

std::unique_ptr<Plan> make(const Device& device, const ConvolutionSpec& asked) {
  ConvolutionSpec spec = asked;
  spec.math = math_for(asked);
  const bool fits_cudnn = !overhangs(spec.vertical, spec.height) && !overhangs(spec.horizontal, spec.width);
  if (fits_cudnn) {
    if (auto graphs = graphs_for(device, spec)) return std::make_unique<CudnnConvolution>(device, spec, graphs);
    if (auto passes = make_chosen_passes(device, spec)) return std::make_unique<CudnnConvolution>(device, spec, passes);
  }
  warn_of("as products with patches", spec,
          fits_cudnn ? "cuDNN has no deterministic algorithm for it that fits into 1.07 GB"
                     : "a window overhangs the end of an axis");
  return make_patch_convolution(device, spec);
}

[[maybe_unused]] const bool registered = kernels::make_convolution_plan.add(DeviceType::kCuda, make);

}  // namespace
}  // namespace dragonn::kernels::cuda
