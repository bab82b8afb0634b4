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

/// The neighbourhood of a channel, in numbers that kernels take.
struct Neighbourhood {
  explicit Neighbourhood(const LocalResponseSpec& spec)
      : channels(static_cast<std::size_t>(spec.channels)),
        reach(static_cast<std::size_t>(spec.size / 2)),
        factor(spec.alpha / static_cast<float>(spec.size)),
        beta(spec.beta),
        k(spec.k) {}

  __device__ std::size_t begin(std::size_t channel) const { return channel < reach ? 0 : channel - reach; }
  __device__ std::size_t end(std::size_t channel) const { return min(channels, channel + reach + 1); }
  /// Returns the number whose power divides a channel of the pixel that begins at `pixel`.
  template <class Element>
  __device__ float base(const Reader<Element>& input, std::size_t pixel, std::size_t channel) const {
    float squares = 0;
    for (std::size_t other = begin(channel); other < end(channel); ++other)
      squares += input[pixel + other] * input[pixel + other];
    return k + factor * squares;
  }

  std::size_t channels, reach;
  float factor, beta, k;
};

template <class Element>
__global__ void forward_kernel(Neighbourhood near, Reader<Element> input, Writer<Element> output, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const std::size_t channel = split(i, near.channels).remainder;
    output[i] = input[i] * powf(near.base(input, i - channel, channel), -near.beta);
  }
}

/// Channel c divides its neighbours, too: each adds a term to its gradient. Their divisors are computed anew.
template <class Element>
__global__ void backward_kernel(Neighbourhood near, Reader<Element> input, Reader<Element> output_gradient,
                                Writer<Element> input_gradient, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const std::size_t channel = split(i, near.channels).remainder, pixel = i - channel;
    float terms = 0;
    for (std::size_t other = near.begin(channel); other < near.end(channel); ++other)
      terms +=
          output_gradient[pixel + other] * input[pixel + other] * powf(near.base(input, pixel, other), -near.beta - 1);
    input_gradient[i] = output_gradient[i] * powf(near.base(input, pixel, channel), -near.beta) -
                        2 * near.factor * near.beta * input[i] * terms;
  }
}

class LocalResponse final : public Plan {
 public:
  LocalResponse(const Device& device, const LocalResponseSpec& spec) : device_(device), near_(spec) {}

  void forward(const ForwardPass& pass) override {
    const std::size_t size = pass.output.size();
    with_element(pass.output.type(), [&](auto element) {
      launch_over(context(device_), "local_response", size, forward_kernel<decltype(element)>, near_, pass.inputs[0],
                  pass.output, size);
    });
  }

  void backward(const BackwardPass& pass) override {
    const std::size_t size = pass.input_gradients[0].size();
    with_element(pass.input_gradients[0].type(), [&](auto element) {
      launch_over(context(device_), "local_response_backward", size, backward_kernel<decltype(element)>, near_,
                  pass.inputs[0], pass.output_gradients[0], pass.input_gradients[0], size);
    });
  }

 private:
  Device device_;
  Neighbourhood near_;
};

[[maybe_unused]] const bool registered =
    kernels::copy_channels.add(DeviceType::kCuda, copy) && kernels::scale_channels.add(DeviceType::kCuda, scale) &&
    kernels::channel_products.add(DeviceType::kCuda, products) &&
    kernels::make_local_response_plan.add(DeviceType::kCuda, construct_plan<LocalResponse>);

}  // namespace
}  // namespace dragonn::kernels::cuda
