// SPDX-License-Identifier: MIT
#include "kernels/cuda/elements.h"
#include "kernels/nn/cuda/columns.h"
#include "kernels/nn/lookahead.h"

namespace dragonn::kernels::cuda {
namespace {

template <class Element>
__global__ void forward_kernel(LookaheadSpec spec, Reader<Element> input, const float* weights, Writer<Element> output,
                               std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split row = split(i, spec.features);
    const std::size_t feature = row.remainder, t = split(row.quotient, spec.steps).remainder;
    float sum = 0;
    for (std::size_t j = 0; j <= spec.context && t + j < spec.steps; ++j)
      sum += weights[j * spec.features + feature] * input[i + j * spec.features];
    output[i] = sum;
  }
}

template <class Element>
__global__ void input_gradient_kernel(LookaheadSpec spec, const float* weights, Reader<Element> output_gradient,
                                      Writer<Element> input_gradient, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split row = split(i, spec.features);
    const std::size_t feature = row.remainder, t = split(row.quotient, spec.steps).remainder;
    float sum = 0;
    for (std::size_t j = 0; j <= spec.context && j <= t; ++j)
      sum += weights[j * spec.features + feature] * output_gradient[i - j * spec.features];
    input_gradient[i] = sum;
  }
}

/// Computes the weights' gradient. A block takes a tile of features (blockIdx.y) and a j (blockIdx.x); its strands
/// share the steps of all samples.
template <class Element>
__global__ void weights_gradient_kernel(LookaheadSpec spec, ColumnCut cut, Reader<Element> input,
                                        Reader<Element> output_gradient, float* weights_gradient) {
  const ColumnPlace place(cut);
  const std::size_t j = blockIdx.x;
  double sum = 0;
  if (place.column < spec.features)
    for (std::size_t row = place.strand; row < cut.rows; row += place.strands)
      if (split(row, spec.steps).remainder + j < spec.steps)
        sum += static_cast<double>(output_gradient[row * spec.features + place.column]) *
               input[(row + j) * spec.features + place.column];
  const double total = sum_strands(place, sum);
  if (place.strand == 0 && place.column < spec.features)
    weights_gradient[j * spec.features + place.column] = static_cast<float>(total);
}

void forward(const LookaheadSpec& spec, TypedView<const float> input, View<const float> weights,
             TypedView<float> output) {
  const Context& here = context(output.device());
  with_element(output.type(), [&](auto element) {
    launch_over(here, "lookahead", output.size(), forward_kernel<decltype(element)>, spec, input, weights.data(),
                output, output.size());
  });
}

void backward(const LookaheadSpec& spec, TypedView<const float> input, View<const float> weights,
              TypedView<const float> output_gradient, TypedView<float> input_gradient, View<float> weights_gradient) {
  const Context& here = context(output_gradient.device());
  const ColumnCut cut(spec.batch * spec.steps, spec.features);
  const dim3 blocks(static_cast<unsigned>(spec.context + 1), cut.tiles);
  with_element(output_gradient.type(), [&](auto element) {
    using Element = decltype(element);
    launch(here, "lookahead_weights_gradient", blocks, kThreads, weights_gradient_kernel<Element>, spec, cut, input,
           output_gradient, weights_gradient.data());
    if (input_gradient.empty()) return;
    launch_over(here, "lookahead_input_gradient", input_gradient.size(), input_gradient_kernel<Element>, spec,
                weights.data(), output_gradient, input_gradient, input_gradient.size());
  });
}

[[maybe_unused]] const bool registered = kernels::lookahead_forward.add(DeviceType::kCuda, forward) &&
                                         kernels::lookahead_backward.add(DeviceType::kCuda, backward);

}  // namespace
}  // namespace dragonn::kernels::cuda
