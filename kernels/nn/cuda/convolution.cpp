// SPDX-License-Identifier: MIT
#include "kernels/nn/convolution.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include <fmt/format.h>

#include "core/log.h"
#include "core/this_rank.h"
#include "kernels/nn/cuda/columns.h"
#include "kernels/nn/cuda/convolution_choice.h"
#include "kernels/nn/cuda/other_convolutions.h"
#include "kernels/nn/sequence_rows.h"

namespace dragonn::kernels::cuda {
namespace {

/// Convolution by cuDNN on float32 tensors. The caller's weights are HWIO: [patch, outputs]. cuDNN's KRSC is the
/// transpose, [outputs, patch].
class CudnnConvolution final : public WeightedPlan {
 public:
  CudnnConvolution(const Device& device, const ConvolutionSpec& spec, DeviceMath math,
                   const ConvolutionChoices& choices)
      : device_(device),
        spec_(spec),
        passes_(device, spec, math, choices),
        patch_(static_cast<std::size_t>(spec.vertical.kernel * spec.horizontal.kernel * (spec.channels / spec.groups))),
        outputs_(static_cast<std::size_t>(spec.output_channels)),
        bias_cut_(static_cast<std::size_t>(spec.batch * spec.vertical.outputs(spec.height) *
                                           spec.horizontal.outputs(spec.width)),
                  outputs_) {}

  PlanMemory memory() const override {
    const std::size_t weights = aligned_floats(patch_ * outputs_);
    const ConvolutionChoices& choices = passes_.choices();
    if (!spec_.training) return {0, weights + floats_for_bytes(choices.forward.bytes), 0};
    return {weights, floats_for_bytes(choices.forward.bytes),
            std::max({weights + floats_for_bytes(choices.backward_weights.bytes),
                      floats_for_bytes(choices.backward_data.bytes),
                      spec_.bias ? aligned_floats(bias_cut_.partials()) : 0})};
  }

  std::vector<PassDescription> describe() const override { return cuda::describe(spec_, passes_.choices()); }

  void forward(const WeightedForward& arguments) override {
    Context& here = context(device_);
    const std::size_t size = patch_ * outputs_;
    // Backward of a training plan reads this copy again.
    const View<float> weights = (spec_.training ? arguments.saved : arguments.scratch).subview(0, size);
    float* workspace = arguments.scratch.data() + (spec_.training ? 0 : aligned_floats(size));
    swap_axes(arguments.weights, patch_, outputs_, weights);
    passes_.forward(arguments.input.data(), weights.data(), arguments.output.data(), workspace);
    if (!arguments.bias.empty())
      add_to_rows(here, arguments.bias.data(), outputs_, arguments.output.data(), arguments.output.size());
  }

  void backward(const WeightedBackward& arguments) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    Context& here = context(device_);
    const float* gradient = arguments.output_gradient.data();
    const std::size_t size = patch_ * outputs_;
    const View<float> transposed = arguments.scratch.subview(0, size);
    passes_.backward_weights(arguments.input.data(), gradient, transposed.data(),
                             arguments.scratch.data() + aligned_floats(size));
    swap_axes(transposed, outputs_, patch_, arguments.weights_gradient);
    if (!arguments.bias_gradient.empty())
      sum_columns(here, bias_cut_, gradient, arguments.scratch.data(), arguments.bias_gradient.data());
    if (!spec_.input_gradient) return;
    passes_.backward_data(arguments.saved.data(), gradient, arguments.input_gradient.data(), arguments.scratch.data());
  }

 private:
  Device device_;
  ConvolutionSpec spec_;
  ConvolutionPasses passes_;
  std::size_t patch_, outputs_;
  ColumnCut bias_cut_;
};

/// Returns whether a window overhangs the end of the axis. cuDNN pads both ends of an axis alike, and so has no such
/// window.
bool overhangs(const Window& window, std::int64_t inputs) {
  return window.outputs(inputs) != (inputs + 2 * window.padding - window.kernel) / window.stride + 1;
}

/// Warns that a convolution runs without cuDNN, once per process and shape.
void warn_of_patches(const ConvolutionSpec& spec, const char* reason) {
  const std::string shape =
      fmt::format("{} x {} x {} to {} channels, window {} x {}", spec.height, spec.width, spec.channels,
                  spec.output_channels, spec.vertical.kernel, spec.horizontal.kernel);
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::lock_guard lock(mutex);
  if (known.insert(shape).second)
    log::warning(std::max(this_rank(), 0), "a convolution of {} runs as products with patches, which is slower: {}",
                 shape, reason);
}

std::unique_ptr<WeightedPlan> make(const Device& device, const ConvolutionSpec& spec) {
  const DeviceMath math = context(device).math();
  const bool fits_cudnn = !overhangs(spec.vertical, spec.height) && !overhangs(spec.horizontal, spec.width);
  const auto choices = fits_cudnn ? choose_algorithms(context(device), spec, math) : std::nullopt;
  if (!choices) {
    warn_of_patches(spec, fits_cudnn ? "cuDNN has no deterministic algorithm for it that fits into 1 GiB"
                                     : "a window overhangs the end of an axis");
    return make_patch_convolution(device, spec, math);
  }
  if (math == DeviceMath::kBf16) return make_bf16_convolution(device, spec, *choices);
  return std::make_unique<CudnnConvolution>(device, spec, math, *choices);
}

[[maybe_unused]] const bool registered = kernels::make_convolution_plan.add(DeviceType::kCuda, make);

}  // namespace
}  // namespace dragonn::kernels::cuda
