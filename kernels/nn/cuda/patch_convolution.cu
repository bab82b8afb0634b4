// SPDX-License-Identifier: MIT
#include <algorithm>

#include "kernels/cuda/elements.h"
#include "kernels/nn/cuda/columns.h"
#include "kernels/nn/cuda/convolution_choice.h"
#include "kernels/nn/cuda/gemm.h"
#include "kernels/nn/cuda/windows.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr std::size_t kMaxPatchElements = std::size_t{1} << 28;

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
template <class Element>
__global__ void gather_kernel(Geometry g, Reader<Element> input, Writer<Element> patches, std::size_t size) {
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
template <class Element>
__global__ void scatter_kernel(Geometry g, Reader<Element> patches, Writer<Element> input_gradient, std::size_t size) {
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

class PatchConvolution final : public Plan {
 public:
  PatchConvolution(const Device& device, const ConvolutionSpec& spec)
      : device_(device),
        spec_(spec),
        geometry_(spec),
        plain_(is_plain(spec.vertical) && is_plain(spec.horizontal)),
        piece_(std::clamp<std::int64_t>(
            static_cast<std::int64_t>(kMaxPatchElements / (geometry_.image_pixels() * geometry_.row())), 1,
            spec.batch)),
        bias_cut_(static_cast<std::size_t>(spec.batch) * geometry_.image_pixels(),
                  static_cast<std::size_t>(spec.output_channels)) {}

  PlanMemory memory() const override {
    if (!spec_.training) return {0, patch_floats() + weight_floats(), 0};
    return {weight_floats(), patch_floats(),
            std::max(patch_floats(), spec_.bias ? aligned_floats(bias_cut_.partials()) : 0)};
  }

  std::vector<PassDescription> describe() const override {
    const std::size_t bytes = patch_floats() * sizeof(float);
    std::vector<PassDescription> passes{{"forward", kPatches, "gemm", bytes}};
    if (spec_.training) passes.push_back({"backward_weights", kPatches, "gemm", bytes});
    if (spec_.training && spec_.input_gradient) passes.push_back({"backward_data", kPatches, "gemm", bytes});
    return passes;
  }

  void forward(const ForwardPass& pass) override {
    Context& here = context(device_);
    // Backward of a training plan reads this copy again.
    const View<float> memory = spec_.training ? pass.saved : pass.scratch.subview(patch_floats(), weight_floats());
    const TypedView<const float> weights = rounded_weights(pass.parameters[0], memory);
    for_each_piece([&](std::int64_t first, std::int64_t images) {
      const void* patches = patches_of(here, pass.inputs[0], first, images, pass.scratch);
      multiply(here, spec_.math,
               {.rows = pixels(images),
                .columns = group_outputs(),
                .inner = patch(),
                .a = {patches, row(), false, patch()},
                .b = {weights.raw(), spec_.output_channels, false, group_outputs()},
                .type = spec_.type,
                .result = pass.output.subview(outputs(first), outputs(images)).raw(),
                .result_type = spec_.type,
                .stride = spec_.output_channels,
                .next = group_outputs(),
                .batch = spec_.groups});
    });
    if (!bias_of(pass.parameters).empty()) add_to_rows(here, bias_of(pass.parameters), pass.output);
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    Context& here = context(device_);
    if (!bias_of(pass.parameter_gradients).empty())
      sum_columns(here, bias_cut_, pass.output_gradients[0], pass.scratch.data(),
                  bias_of(pass.parameter_gradients).data());
    for_each_piece([&](std::int64_t first, std::int64_t images) { add_weights_gradient(here, pass, first, images); });
    if (spec_.input_gradient)
      for_each_piece([&](std::int64_t first, std::int64_t images) { input_gradient(here, pass, first, images); });
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
  std::size_t outputs(std::int64_t images) const {
    return static_cast<std::size_t>(pixels(images) * spec_.output_channels);
  }
  std::size_t inputs(std::int64_t images) const { return static_cast<std::size_t>(images) * geometry_.image_inputs(); }
  std::size_t patch_floats() const {
    const auto count = static_cast<std::size_t>(pixels(piece_) * row());
    return plain_ ? 0 : floats_for_bytes(count * bytes_of(spec_.type));
  }
  std::size_t weight_count() const { return static_cast<std::size_t>(patch() * spec_.output_channels); }
  /// Returns the floats of a copy of the weights in bf16; 0 if the weights do as they are.
  std::size_t weight_floats() const {
    return spec_.type == ElementType::kBf16 ? floats_for_bytes(weight_count() * sizeof(Bf16)) : 0;
  }
  TypedView<const float> rounded_weights(View<const float> weights, View<float> memory) const {
    if (spec_.type == ElementType::kFloat32) return weights;
    const TypedView<float> copy(memory.data(), weight_count(), spec_.type, device_);
    convert(weights, copy);
    return copy;
  }

  /// Calls body(first image, number of images).
  template <class Body>
  void for_each_piece(const Body& body) const {
    for (std::int64_t first = 0; first < spec_.batch; first += piece_)
      body(first, std::min(piece_, spec_.batch - first));
  }

  TypedView<float> patches_in(View<float> scratch, std::int64_t images) const {
    return {scratch.data(), static_cast<std::size_t>(pixels(images) * row()), spec_.type, device_};
  }

  const void* patches_of(const Context& here, TypedView<const float> input, std::int64_t first, std::int64_t images,
                         View<float> scratch) const {
    const TypedView<const float> piece = input.subview(inputs(first), inputs(images));
    if (plain_) return piece.raw();
    const TypedView<float> patches = patches_in(scratch, images);
    with_element(spec_.type, [&](auto element) {
      launch_over(here, "gather_patches", patches.size(), gather_kernel<decltype(element)>, geometry_, piece, patches,
                  patches.size());
    });
    return patches.raw();
  }

  void add_weights_gradient(Context& here, const BackwardPass& pass, std::int64_t first, std::int64_t images) const {
    const void* patches = patches_of(here, pass.inputs[0], first, images, pass.scratch);
    const void* gradient = pass.output_gradients[0].subview(outputs(first), outputs(images)).raw();
    multiply(here, spec_.math,
             {.rows = patch(),
              .columns = group_outputs(),
              .inner = pixels(images),
              .a = {patches, row(), true, patch()},
              .b = {gradient, spec_.output_channels, false, group_outputs()},
              .type = spec_.type,
              .result = pass.parameter_gradients[0].data(),
              .stride = spec_.output_channels,
              .next = group_outputs(),
              .batch = spec_.groups,
              .keep = first == 0 ? 0.0f : 1.0f});
  }

  void input_gradient(Context& here, const BackwardPass& pass, std::int64_t first, std::int64_t images) const {
    const TypedView<float> target = pass.input_gradients[0].subview(inputs(first), inputs(images));
    const TypedView<float> patches = plain_ ? target : patches_in(pass.scratch, images);
    const bool rounded = spec_.type == ElementType::kBf16;
    multiply(
        here, spec_.math,
        {.rows = pixels(images),
         .columns = patch(),
         .inner = group_outputs(),
         .a = {pass.output_gradients[0].subview(outputs(first), outputs(images)).raw(), spec_.output_channels, false,
               group_outputs()},
         .b = {rounded ? pass.saved.data() : pass.parameters[0].data(), spec_.output_channels, true, group_outputs()},
         .type = spec_.type,
         .result = patches.raw(),
         .result_type = spec_.type,
         .stride = row(),
         .next = patch(),
         .batch = spec_.groups});
    if (plain_) return;
    with_element(spec_.type, [&](auto element) {
      launch_over(here, "scatter_patches", target.size(), scatter_kernel<decltype(element)>, geometry_, patches, target,
                  target.size());
    });
  }

  Device device_;
  ConvolutionSpec spec_;
  Geometry geometry_;
  bool plain_;
  std::int64_t piece_;  // images
  ColumnCut bias_cut_;
};

}  // namespace

std::unique_ptr<Plan> make_patch_convolution(const Device& device, const ConvolutionSpec& spec) {
  return std::make_unique<PatchConvolution>(device, spec);
}

}  // namespace dragonn::kernels::cuda
