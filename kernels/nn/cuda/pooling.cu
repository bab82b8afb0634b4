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

/// The channels of a thread, if all channels are a multiple of them; else it has one.
constexpr std::size_t kThreadChannels = 4;

/// Takes the maximum of every window, for kWidth neighbouring channels at a time. `places` receives which pixel of its
/// image the first of the largest inputs is; it may be null. A NaN is largest.
template <class Element, std::size_t kWidth>
__global__ void maximum_kernel(Geometry g, const Element* input, Element* output, std::int32_t* places) {
  using Values = Pack<Element, kWidth>;
  for (std::size_t i = first_element(); i < g.outputs / kWidth; i += element_stride()) {
    const Position at(i, g.vertical.outputs, g.horizontal.outputs, g.channels / kWidth);
    float best[kWidth] = {};
    Pack<std::int32_t, kWidth> place;
#pragma unroll
    for (std::size_t k = 0; k < kWidth; ++k) place.values[k] = -1;
    for (int row = g.vertical.begin(at.row); row < g.vertical.end(at.row); ++row)
      for (int column = g.horizontal.begin(at.column); column < g.horizontal.end(at.column); ++column) {
        const std::size_t pixel = pixel_of(at.image, row, column, g.vertical.inputs, g.horizontal.inputs);
        const Values values = *reinterpret_cast<const Values*>(input + pixel * g.channels + at.channel * kWidth);
#pragma unroll
        for (std::size_t k = 0; k < kWidth; ++k) {
          const float value = widen(values.values[k]);
          if (place.values[k] >= 0 && !(value > best[k] || value != value)) continue;
          best[k] = value;
          place.values[k] = row * g.horizontal.inputs + column;
        }
      }
    Values result;
#pragma unroll
    for (std::size_t k = 0; k < kWidth; ++k) result.values[k] = narrow<Element>(best[k]);
    reinterpret_cast<Values*>(output)[i] = result;
    if (places != nullptr) reinterpret_cast<Pack<std::int32_t, kWidth>*>(places)[i] = place;
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
template <class Element, std::size_t kWidth>
__global__ void backward_kernel(Geometry g, const Element* output_gradient, const std::int32_t* places,
                                Element* input_gradient) {
  using Values = Pack<Element, kWidth>;
  using Places = Pack<std::int32_t, kWidth>;
  for (std::size_t i = first_element(); i < g.inputs / kWidth; i += element_stride()) {
    const Position at(i, g.vertical.inputs, g.horizontal.inputs, g.channels / kWidth);
    const int own = at.row * g.horizontal.inputs + at.column;
    float sum[kWidth] = {};
    for (int row = g.vertical.first(at.row); row <= g.vertical.last(at.row); ++row)
      for (int column = g.horizontal.first(at.column); column <= g.horizontal.last(at.column); ++column) {
        const std::size_t pixel = pixel_of(at.image, row, column, g.vertical.outputs, g.horizontal.outputs);
        const std::size_t from = pixel * g.channels + at.channel * kWidth;
        const Values gradient = *reinterpret_cast<const Values*>(output_gradient + from);
        Places place;
        if (places != nullptr) place = *reinterpret_cast<const Places*>(places + from);
        const auto seen = static_cast<float>(pixels_seen(g, row, column));
#pragma unroll
        for (std::size_t k = 0; k < kWidth; ++k) {
          const float value = widen(gradient.values[k]);
          if (places == nullptr)
            sum[k] += value / seen;
          else if (place.values[k] == own)
            sum[k] += value;
        }
      }
    Values result;
#pragma unroll
    for (std::size_t k = 0; k < kWidth; ++k) result.values[k] = narrow<Element>(sum[k]);
    reinterpret_cast<Values*>(input_gradient)[i] = result;
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
    auto* places = spec_.training ? reinterpret_cast<std::int32_t*>(pass.saved.data()) : nullptr;
    with_element(pass.output.type(), [&](auto element) {
      using Element = decltype(element);
      const Element* input = pass.inputs[0].as<Element>();
      Element* output = pass.output.as<Element>();
      if (!maximum())
        launch(here, "average pooling", here.blocks(geometry_.outputs, kThreads), kThreads, average_kernel<Element>,
               geometry_, input, output);
      else if (is_wide(input, output))
        launch(here, "maximum pooling", here.blocks(geometry_.outputs / kThreadChannels, kThreads), kThreads,
               maximum_kernel<Element, kThreadChannels>, geometry_, input, output, places);
      else
        launch(here, "maximum pooling", here.blocks(geometry_.outputs, kThreads), kThreads, maximum_kernel<Element, 1>,
               geometry_, input, output, places);
    });
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    const Context& here = context(device_);
    const auto* places = maximum() ? reinterpret_cast<const std::int32_t*>(pass.saved.data()) : nullptr;
    with_element(pass.input_gradients[0].type(), [&](auto element) {
      using Element = decltype(element);
      const Element* output_gradient = pass.output_gradients[0].as<Element>();
      Element* input_gradient = pass.input_gradients[0].as<Element>();
      if (is_wide(output_gradient, input_gradient))
        launch(here, "pooling_backward", here.blocks(geometry_.inputs / kThreadChannels, kThreads), kThreads,
               backward_kernel<Element, kThreadChannels>, geometry_, output_gradient, places, input_gradient);
      else
        launch(here, "pooling_backward", here.blocks(geometry_.inputs, kThreads), kThreads, backward_kernel<Element, 1>,
               geometry_, output_gradient, places, input_gradient);
    });
  }

 private:
  bool maximum() const { return spec_.kind == PoolingKind::kMaximum; }
  /// Returns whether a thread may take several channels of these arrays.
  bool is_wide(const void* from, const void* to) const {
    return geometry_.channels % kThreadChannels == 0 && is_aligned(from) && is_aligned(to);
  }

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
