// SPDX-License-Identifier: MIT
#include <algorithm>

#include "kernels/nn/cuda/columns.h"
#include "kernels/nn/cuda/gemm.h"
#include "kernels/nn/cuda/other_convolutions.h"
#include "kernels/nn/cuda/windows.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr std::size_t kMostPatchFloats = std::size_t{1} << 28;

struct Geometry {
  explicit Geometry(const ConvolutionSpec& spec)
      : vertical(spec.vertical, spec.height),
        horizontal(spec.horizontal, spec.width),
        channels(static_cast<std::size_t>(spec.channels)),
        group_channels(static_cast<std::size_t>(spec.channels / spec.groups)) {}
  /// Returns the size of the patch of one group and pixel: [kernel height, kernel width, channels of the group].
  __host__ __device__ std::size_t patch() const {
    return static_cast<std::size_t>(vertical.kernel) * horizontal.kernel * group_channels;
  }
  __host__ __device__ std::size_t row() const { return patch() * (channels / group_channels); }
  std::size_t image_inputs() const { return static_cast<std::size_t>(vertical.inputs) * horizontal.inputs * channels; }
  std::size_t image_pixels() const { return static_cast<std::size_t>(vertical.outputs) * horizontal.outputs; }

  Axis vertical, horizontal;
  std::size_t channels, group_channels;
};

/// Gathers patches [images, output height, output width, groups, patch], with zeros outside of the image.
__global__ void gather_kernel(Geometry g, const float* input, float* patches, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split patch = split(i, g.patch()), group = split(patch.quotient, g.channels / g.group_channels);
    const Split within = split(patch.remainder, g.group_channels);
    const Position at(group.quotient, g.vertical.outputs, g.horizontal.outputs, 1);
    const std::size_t channel = group.remainder * g.group_channels + within.remainder;
    const int place = static_cast<int>(within.quotient);
    const int row = at.row * g.vertical.stride - g.vertical.padding + place / g.horizontal.kernel;
    const int column = at.column * g.horizontal.stride - g.horizontal.padding + place % g.horizontal.kernel;
    const bool inside = row >= 0 && row < g.vertical.inputs && column >= 0 && column < g.horizontal.inputs;
    patches[i] =
        inside ? input[pixel_of(at.image, row, column, g.vertical.inputs, g.horizontal.inputs) * g.channels + channel]
               : 0.0f;
  }
}

/// Scatters patches: every input sums the gradients of the windows that see it, in their order.
__global__ void scatter_kernel(Geometry g, const float* patches, float* input_gradient, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Position at(i, g.vertical.inputs, g.horizontal.inputs, g.channels);
    const Split group = split(at.channel, g.group_channels);
    float sum = 0;
    for (int row = g.vertical.first(at.row); row <= g.vertical.last(at.row); ++row)
      for (int column = g.horizontal.first(at.column); column <= g.horizontal.last(at.column); ++column) {
        const int down = at.row + g.vertical.padding - row * g.vertical.stride;
        const int across = at.column + g.horizontal.padding - column * g.horizontal.stride;
        const std::size_t pixel = pixel_of(at.image, row, column, g.vertical.outputs, g.horizontal.outputs);
        const auto place = static_cast<std::size_t>(down * g.horizontal.kernel + across);
        sum += patches[pixel * g.row() + group.quotient * g.patch() + place * g.group_channels + group.remainder];
      }
    input_gradient[i] = sum;
  }
}

class PatchConvolution final : public WeightedPlan {
 public:
  PatchConvolution(const Device& device, const ConvolutionSpec& spec, DeviceMath math)
      : device_(device),
        math_(math),
        spec_(spec),
        geometry_(spec),
        plain_(is_plain(spec.vertical) && is_plain(spec.horizontal)),
        piece_(std::clamp<std::int64_t>(
            static_cast<std::int64_t>(kMostPatchFloats / (geometry_.image_pixels() * geometry_.row())), 1, spec.batch)),
        bias_cut_(static_cast<std::size_t>(spec.batch) * geometry_.image_pixels(),
                  static_cast<std::size_t>(spec.output_channels)) {}

  PlanMemory memory() const override {
    if (!spec_.training) return {0, patch_floats(), 0};
    return {0, patch_floats(), std::max(patch_floats(), spec_.bias ? aligned_floats(bias_cut_.partials()) : 0)};
  }

  std::vector<PassDescription> describe() const override {
    const std::size_t bytes = patch_floats() * sizeof(float);
    std::vector<PassDescription> passes{{"forward", kPatches, "gemm", bytes}};
    if (spec_.training) passes.push_back({"backward_weights", kPatches, "gemm", bytes});
    if (spec_.training && spec_.input_gradient) passes.push_back({"backward_data", kPatches, "gemm", bytes});
    return passes;
  }

  void forward(const WeightedForward& arguments) override {
    Context& here = context(device_);
    for_each_piece([&](std::int64_t first, std::int64_t images) {
      const float* patches = patches_of(here, arguments.input.data(), first, images, arguments.scratch.data());
      multiply(here, math_,
               {.rows = pixels(images),
                .columns = group_outputs(),
                .inner = patch(),
                .a = {patches, row(), false, patch()},
                .b = {arguments.weights.data(), spec_.output_channels, false, group_outputs()},
                .result = arguments.output.data() + outputs(first),
                .stride = spec_.output_channels,
                .next = group_outputs(),
                .batch = spec_.groups});
    });
    if (!arguments.bias.empty())
      add_to_rows(here, arguments.bias.data(), bias_cut_.columns, arguments.output.data(), arguments.output.size());
  }

  void backward(const WeightedBackward& arguments) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    Context& here = context(device_);
    if (!arguments.bias_gradient.empty())
      sum_columns(here, bias_cut_, arguments.output_gradient.data(), arguments.scratch.data(),
                  arguments.bias_gradient.data());
    for_each_piece(
        [&](std::int64_t first, std::int64_t images) { add_weights_gradient(here, arguments, first, images); });
    if (spec_.input_gradient)
      for_each_piece([&](std::int64_t first, std::int64_t images) { input_gradient(here, arguments, first, images); });
  }

 private:
  /// Returns whether a pixel's patch is the pixel.
  static bool is_plain(const Window& window) { return window == Window{1, 1, 0, window.ceil}; }

  std::int64_t group_outputs() const { return spec_.output_channels / spec_.groups; }
  std::int64_t patch() const { return static_cast<std::int64_t>(geometry_.patch()); }
  std::int64_t row() const { return static_cast<std::int64_t>(geometry_.row()); }
  std::int64_t pixels(std::int64_t images) const {
    return images * static_cast<std::int64_t>(geometry_.image_pixels());
  }
  std::int64_t outputs(std::int64_t images) const { return pixels(images) * spec_.output_channels; }
  std::int64_t inputs(std::int64_t images) const {
    return images * static_cast<std::int64_t>(geometry_.image_inputs());
  }
  std::size_t patch_floats() const {
    return plain_ ? 0 : aligned_floats(static_cast<std::size_t>(pixels(piece_) * row()));
  }

  /// Calls body(first image, number of images).
  template <class Body>
  void for_each_piece(const Body& body) const {
    for (std::int64_t first = 0; first < spec_.batch; first += piece_)
      body(first, std::min(piece_, spec_.batch - first));
  }

  const float* patches_of(const Context& here, const float* input, std::int64_t first, std::int64_t images,
                          float* scratch) const {
    if (plain_) return input + inputs(first);
    const auto size = static_cast<std::size_t>(pixels(images) * row());
    launch_over(here, "gather_patches", size, gather_kernel, geometry_, input + inputs(first), scratch, size);
    return scratch;
  }

  void add_weights_gradient(Context& here, const WeightedBackward& arguments, std::int64_t first,
                            std::int64_t images) const {
    const float* patches = patches_of(here, arguments.input.data(), first, images, arguments.scratch.data());
    multiply(here, math_,
             {.rows = patch(),
              .columns = group_outputs(),
              .inner = pixels(images),
              .a = {patches, row(), true, patch()},
              .b = {arguments.output_gradient.data() + outputs(first), spec_.output_channels, false, group_outputs()},
              .result = arguments.weights_gradient.data(),
              .stride = spec_.output_channels,
              .next = group_outputs(),
              .batch = spec_.groups,
              .keep = first == 0 ? 0.0f : 1.0f});
  }

  void input_gradient(Context& here, const WeightedBackward& arguments, std::int64_t first, std::int64_t images) const {
    float* target = arguments.input_gradient.data() + inputs(first);
    multiply(here, math_,
             {.rows = pixels(images),
              .columns = patch(),
              .inner = group_outputs(),
              .a = {arguments.output_gradient.data() + outputs(first), spec_.output_channels, false, group_outputs()},
              .b = {arguments.weights.data(), spec_.output_channels, true, group_outputs()},
              .result = plain_ ? target : arguments.scratch.data(),
              .stride = row(),
              .next = patch(),
              .batch = spec_.groups});
    if (plain_) return;
    const auto size = static_cast<std::size_t>(inputs(images));
    launch_over(here, "scatter_patches", size, scatter_kernel, geometry_, arguments.scratch.data(), target, size);
  }

  Device device_;
  DeviceMath math_;
  ConvolutionSpec spec_;
  Geometry geometry_;
  bool plain_;
  std::int64_t piece_;  // images
  ColumnCut bias_cut_;
};

}  // namespace

std::unique_ptr<WeightedPlan> make_patch_convolution(const Device& device, const ConvolutionSpec& spec,
                                                     DeviceMath math) {
  return std::make_unique<PatchConvolution>(device, spec, math);
}

}  // namespace dragonn::kernels::cuda
