// SPDX-License-Identifier: MIT
#include "kernels/cuda/elements.h"
#include "kernels/cuda/runtime.h"
#include "kernels/nn/pooling.h"

namespace dragonn::kernels::cuda {
namespace {

/// The two shapes. Elements of one side are enumerated; each finds its partner on the other side, or is zero.
struct Geometry {
  explicit Geometry(const PaddedShortcutSpec& of)
      : spec(of),
        output_height((of.height + of.stride - 1) / of.stride),
        output_width((of.width + of.stride - 1) / of.stride),
        before((of.output_channels - of.channels) / 2) {}
  PaddedShortcutSpec spec;
  std::size_t output_height, output_width, before;
};

template <class Element>
__global__ void forward_kernel(Geometry geometry, Reader<Element> input, Writer<Element> output, std::size_t size) {
  const PaddedShortcutSpec& spec = geometry.spec;
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split pixel = split(i, spec.output_channels), line = split(pixel.quotient, geometry.output_width);
    const Split image = split(line.quotient, geometry.output_height);
    const std::size_t channel = pixel.remainder;
    const std::size_t column = line.remainder * spec.stride, row = image.remainder * spec.stride;
    const bool kept = channel >= geometry.before && channel < geometry.before + spec.channels;
    const std::size_t from = ((image.quotient * spec.height + row) * spec.width + column) * spec.channels;
    output[i] = kept ? input[from + channel - geometry.before] : 0.0f;
  }
}

template <class Element>
__global__ void backward_kernel(Geometry geometry, Reader<Element> output_gradient, Writer<Element> input_gradient,
                                std::size_t size) {
  const PaddedShortcutSpec& spec = geometry.spec;
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split pixel = split(i, spec.channels), line = split(pixel.quotient, spec.width);
    const Split image = split(line.quotient, spec.height);
    const Split column = split(line.remainder, spec.stride), row = split(image.remainder, spec.stride);
    const bool kept = column.remainder == 0 && row.remainder == 0;
    const std::size_t to_row = image.quotient * geometry.output_height + row.quotient;
    const std::size_t to = (to_row * geometry.output_width + column.quotient) * spec.output_channels;
    input_gradient[i] = kept ? output_gradient[to + geometry.before + pixel.remainder] : 0.0f;
  }
}

void forward(const PaddedShortcutSpec& spec, TypedView<const float> input, TypedView<float> output) {
  const Context& here = context(output.device());
  with_element(output.type(), [&](auto element) {
    launch_over(here, "padded_shortcut", output.size(), forward_kernel<decltype(element)>, Geometry(spec), input,
                output, output.size());
  });
}

void backward(const PaddedShortcutSpec& spec, TypedView<const float> output_gradient, TypedView<float> input_gradient) {
  const Context& here = context(input_gradient.device());
  with_element(input_gradient.type(), [&](auto element) {
    launch_over(here, "padded_shortcut_backward", input_gradient.size(), backward_kernel<decltype(element)>,
                Geometry(spec), output_gradient, input_gradient, input_gradient.size());
  });
}

[[maybe_unused]] const bool registered = kernels::padded_shortcut_forward.add(DeviceType::kCuda, forward) &&
                                         kernels::padded_shortcut_backward.add(DeviceType::kCuda, backward);

}  // namespace
}  // namespace dragonn::kernels::cuda
