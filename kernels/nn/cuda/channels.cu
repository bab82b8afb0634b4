// SPDX-License-Identifier: MIT
#include "kernels/cuda/elements.h"
#include "kernels/cuda/runtime.h"
#include "kernels/nn/channels.h"

namespace dragonn::kernels::cuda {
namespace {

template <class Element>
__global__ void copy_kernel(ChannelCopy shape, Reader<Element> source, Writer<Element> target, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split pixel = split(i, shape.channels);
    target[pixel.quotient * shape.target_channels + shape.target_first + pixel.remainder] =
        source[pixel.quotient * shape.source_channels + shape.source_first + pixel.remainder];
  }
}

template <class Element>
__global__ void scale_kernel(ChannelScale shape, Reader<Element> input, Reader<Element> factors, Writer<Element> output,
                             std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split row = split(i, shape.channels);
    const std::size_t sample = split(row.quotient, shape.pixels).quotient;
    output[i] = input[i] * factors[sample * shape.channels + row.remainder];
  }
}

/// Sums over the pixels, a thread for each channel of a sample.
template <class Element>
__global__ void products_kernel(ChannelScale shape, Reader<Element> input, Reader<Element> output_gradient,
                                Writer<Element> factor_gradients, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split sample = split(i, shape.channels);
    std::size_t at = sample.quotient * shape.pixels * shape.channels + sample.remainder;
    float sum = 0;
    for (std::size_t pixel = 0; pixel < shape.pixels; ++pixel, at += shape.channels)
      sum += input[at] * output_gradient[at];
    factor_gradients[i] = sum;
  }
}

void copy(const ChannelCopy& shape, TypedView<const float> source, TypedView<float> target) {
  const std::size_t size = shape.pixels * shape.channels;
  with_element(target.type(), [&](auto element) {
    launch_over(context(target.device()), "copy_channels", size, copy_kernel<decltype(element)>, shape, source, target,
                size);
  });
}

void scale(const ChannelScale& shape, TypedView<const float> input, TypedView<const float> factors,
           TypedView<float> output) {
  with_element(output.type(), [&](auto element) {
    launch_over(context(output.device()), "scale_channels", output.size(), scale_kernel<decltype(element)>, shape,
                input, factors, output, output.size());
  });
}

void products(const ChannelScale& shape, TypedView<const float> input, TypedView<const float> output_gradient,
              TypedView<float> factor_gradients) {
  with_element(factor_gradients.type(), [&](auto element) {
    launch_over(context(factor_gradients.device()), "channel_products", factor_gradients.size(),
                products_kernel<decltype(element)>, shape, input, output_gradient, factor_gradients,
                factor_gradients.size());
  });
}

[[maybe_unused]] const bool registered = kernels::copy_channels.add(DeviceType::kCuda, copy) &&
                                         kernels::scale_channels.add(DeviceType::kCuda, scale) &&
                                         kernels::channel_products.add(DeviceType::kCuda, products);

}  // namespace
}  // namespace dragonn::kernels::cuda
