// SPDX-License-Identifier: MIT
#include "kernels/cuda/elements.h"
#include "kernels/cuda/runtime.h"
#include "kernels/nn/cuda/windows.h"
#include "kernels/nn/pooling.h"

namespace dragonn::kernels::cuda {
namespace {

struct Geometry {
  explicit Geometry(const PoolingSpec& spec)
      : vertical(spec.vertical, spec.height),
        horizontal(spec.horizontal, spec.width),
        channels(static_cast<std::size_t>(spec.channels)),
        inputs(static_cast<std::size_t>(spec.batch) * image_inputs() * channels),
        outputs(static_cast<std::size_t>(spec.batch) * image_outputs() * channels) {}
  std::size_t image_inputs() const { return static_cast<std::size_t>(vertical.inputs) * horizontal.inputs; }
  std::size_t image_outputs() const { return static_cast<std::size_t>(vertical.outputs) * horizontal.outputs; }

  Axis vertical, horizontal;
  std::size_t channels, inputs, outputs;
};

/// Takes the maximum of every window. `places` receives which pixel of its image the first of the largest inputs is; it
/// may be null. A NaN is largest.
template <class Element>
__global__ void maximum_kernel(Geometry g, Reader<Element> input, Writer<Element> output, std::int32_t* places) {
  for (std::size_t i = first_element(); i < g.outputs; i += element_stride()) {
    const Position at(i, g.vertical.outputs, g.horizontal.outputs, g.channels);
    float best = 0;
    int place = -1;
    for (int row = g.vertical.begin(at.row); row < g.vertical.end(at.row); ++row)
      for (int column = g.horizontal.begin(at.column); column < g.horizontal.end(at.column); ++column) {
        const float value =
            input[pixel_of(at.image, row, column, g.vertical.inputs, g.horizontal.inputs) * g.channels + at.channel];
        if (place >= 0 && !(value > best || value != value)) continue;
        best = value;
        place = row * g.horizontal.inputs + column;
      }
    output[i] = best;
    if (places != nullptr) places[i] = place;
  }
}

__device__ int pixels_seen(const Geometry& g, int row, int column) {
  return (g.vertical.end(row) - g.vertical.begin(row)) * (g.horizontal.end(column) - g.horizontal.begin(column));
}

template <class Element>
__global__ void average_kernel(Geometry g, Reader<Element> input, Writer<Element> output) {
  for (std::size_t i = first_element(); i < g.outputs; i += element_stride()) {
    const Position at(i, g.vertical.outputs, g.horizontal.outputs, g.channels);
    float sum = 0;
    for (int row = g.vertical.begin(at.row); row < g.vertical.end(at.row); ++row)
      for (int column = g.horizontal.begin(at.column); column < g.horizontal.end(at.column); ++column)
        sum += input[pixel_of(at.image, row, column, g.vertical.inputs, g.horizontal.inputs) * g.channels + at.channel];
    output[i] = sum / static_cast<float>(pixels_seen(g, at.row, at.column));
  }
}

/// Computes the gradient: every input sums those of the windows that see it, in their order. @param places of maximum
/// pooling.
template <class Element>
__global__ void backward_kernel(Geometry g, Reader<Element> output_gradient, const std::int32_t* places,
                                Writer<Element> input_gradient) {
  for (std::size_t i = first_element(); i < g.inputs; i += element_stride()) {
    const Position at(i, g.vertical.inputs, g.horizontal.inputs, g.channels);
    const int own = at.row * g.horizontal.inputs + at.column;
    float sum = 0;
    for (int row = g.vertical.first(at.row); row <= g.vertical.last(at.row); ++row)
      for (int column = g.horizontal.first(at.column); column <= g.horizontal.last(at.column); ++column) {
        const std::size_t from =
            pixel_of(at.image, row, column, g.vertical.outputs, g.horizontal.outputs) * g.channels + at.channel;
        if (places == nullptr)
          sum += output_gradient[from] / static_cast<float>(pixels_seen(g, row, column));
        else if (places[from] == own)
          sum += output_gradient[from];
      }
    input_gradient[i] = sum;
  }
}

class CudaPooling final : public Plan {
 public:
  CudaPooling(const Device& device, const PoolingSpec& spec) : device_(device), spec_(spec), geometry_(spec) {}

  PlanMemory memory() const override {
    return {spec_.training && maximum() ? aligned_floats(geometry_.outputs) : 0, 0, 0};
  }

  void forward(const ForwardPass& pass) override {
    const Context& here = context(device_);
    const unsigned blocks = here.blocks(geometry_.outputs, kThreads);
    auto* places = spec_.training ? reinterpret_cast<std::int32_t*>(pass.saved.data()) : nullptr;
    with_element(pass.output.type(), [&](auto element) {
      using Element = decltype(element);
      if (maximum())
        launch(here, "maximum pooling", blocks, kThreads, maximum_kernel<Element>, geometry_, pass.inputs[0],
               pass.output, places);
      else
        launch(here, "average pooling", blocks, kThreads, average_kernel<Element>, geometry_, pass.inputs[0],
               pass.output);
    });
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    const Context& here = context(device_);
    const auto* places = maximum() ? reinterpret_cast<const std::int32_t*>(pass.saved.data()) : nullptr;
    with_element(pass.input_gradients[0].type(), [&](auto element) {
      launch_over(here, "pooling_backward", geometry_.inputs, backward_kernel<decltype(element)>, geometry_,
                  pass.output_gradients[0], places, pass.input_gradients[0]);
    });
  }

 private:
  bool maximum() const { return spec_.kind == PoolingKind::kMaximum; }

  Device device_;
  PoolingSpec spec_;
  Geometry geometry_;
};

/// The two shapes. Elements of one side are enumerated; each finds its partner on the other side, or is zero.
struct ShortcutShapes {
  explicit ShortcutShapes(const PaddedShortcutSpec& of)
      : spec(of),
        output_height((of.height + of.stride - 1) / of.stride),
        output_width((of.width + of.stride - 1) / of.stride),
        before((of.output_channels - of.channels) / 2) {}
  PaddedShortcutSpec spec;
  std::size_t output_height, output_width, before;
};

template <class Element>
__global__ void shortcut_kernel(ShortcutShapes shapes, Reader<Element> input, Writer<Element> output,
                                std::size_t size) {
  const PaddedShortcutSpec& spec = shapes.spec;
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split pixel = split(i, spec.output_channels), line = split(pixel.quotient, shapes.output_width);
    const Split image = split(line.quotient, shapes.output_height);
    const std::size_t channel = pixel.remainder;
    const std::size_t column = line.remainder * spec.stride, row = image.remainder * spec.stride;
    const bool kept = channel >= shapes.before && channel < shapes.before + spec.channels;
    const std::size_t from = ((image.quotient * spec.height + row) * spec.width + column) * spec.channels;
    output[i] = kept ? input[from + channel - shapes.before] : 0.0f;
  }
}

template <class Element>
__global__ void shortcut_backward_kernel(ShortcutShapes shapes, Reader<Element> output_gradient,
                                         Writer<Element> input_gradient, std::size_t size) {
  const PaddedShortcutSpec& spec = shapes.spec;
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split pixel = split(i, spec.channels), line = split(pixel.quotient, spec.width);
    const Split image = split(line.quotient, spec.height);
    const Split column = split(line.remainder, spec.stride), row = split(image.remainder, spec.stride);
    const bool kept = column.remainder == 0 && row.remainder == 0;
    const std::size_t to_row = image.quotient * shapes.output_height + row.quotient;
    const std::size_t to = (to_row * shapes.output_width + column.quotient) * spec.output_channels;
    input_gradient[i] = kept ? output_gradient[to + shapes.before + pixel.remainder] : 0.0f;
  }
}

void shortcut_forward(const PaddedShortcutSpec& spec, TypedView<const float> input, TypedView<float> output) {
  const Context& here = context(output.device());
  with_element(output.type(), [&](auto element) {
    launch_over(here, "padded_shortcut", output.size(), shortcut_kernel<decltype(element)>, ShortcutShapes(spec), input,
                output, output.size());
  });
}

void shortcut_backward(const PaddedShortcutSpec& spec, TypedView<const float> output_gradient,
                       TypedView<float> input_gradient) {
  const Context& here = context(input_gradient.device());
  with_element(input_gradient.type(), [&](auto element) {
    launch_over(here, "padded_shortcut_backward", input_gradient.size(), shortcut_backward_kernel<decltype(element)>,
                ShortcutShapes(spec), output_gradient, input_gradient, input_gradient.size());
  });
}

[[maybe_unused]] const bool registered =
    kernels::make_pooling_plan.add(DeviceType::kCuda, construct_plan<CudaPooling>) &&
    kernels::padded_shortcut_forward.add(DeviceType::kCuda, shortcut_forward) &&
    kernels::padded_shortcut_backward.add(DeviceType::kCuda, shortcut_backward);

}  // namespace
}  // namespace dragonn::kernels::cuda
