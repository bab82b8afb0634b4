// SPDX-License-Identifier: MIT
#include "kernels/cuda/runtime.h"
#include "kernels/nn/position_embedding.h"

namespace dragonn::kernels::cuda {
namespace {

__global__ void forward_kernel(const float* input, const float* table, std::size_t sample, float* output,
                               std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride())
    output[i] = input[i] + table[split(i, sample).remainder];
}

/// Computes the table's gradient: every element sums over the batch in its order.
__global__ void backward_kernel(const float* output_gradient, std::size_t sample, std::size_t batch,
                                float* table_gradient, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    float sum = 0;
    if (i < sample)
      for (std::size_t b = 0; b < batch; ++b) sum += output_gradient[b * sample + i];
    table_gradient[i] = sum;
  }
}

void forward(View<const float> input, View<const float> table, std::size_t steps, std::size_t width,
             View<float> output) {
  if (input.empty()) return;
  const Context& here = context(output.device());
  launch(here, "add_positions", here.blocks(input.size(), kThreads), kThreads, forward_kernel, input.data(),
         table.data(), steps * width, output.data(), input.size());
}

void backward(View<const float> output_gradient, std::size_t steps, std::size_t width, View<float> table_gradient) {
  const Context& here = context(table_gradient.device());
  const std::size_t sample = steps * width;
  launch(here, "add_positions_backward", here.blocks(table_gradient.size(), kThreads), kThreads, backward_kernel,
         output_gradient.data(), sample, output_gradient.size() / sample, table_gradient.data(), table_gradient.size());
}

[[maybe_unused]] const bool registered = add_positions_table().add(DeviceType::kCuda, forward) &&
                                         add_positions_backward_table().add(DeviceType::kCuda, backward);

}  // namespace
}  // namespace dragonn::kernels::cuda
