// SPDX-License-Identifier: MIT
#include "core/philox.h"
#include "kernels/cuda/runtime.h"
#include "kernels/nn/dropout.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr std::size_t kDrawsPerBlock = 4;

/// Applies dropout, in place if asked. A thread takes a block of four draws of the stream, and its elements.
__global__ void dropout_kernel(const float* input, float rate, float factor, const std::uint64_t* key, float* output,
                               std::size_t size) {
  const std::size_t draws = (size + kDrawsPerBlock - 1) / kDrawsPerBlock;
  for (std::size_t counter = first_element(); counter < draws; counter += element_stride()) {
    const PhiloxBlock block = stream_block(*key, counter);
    const std::size_t first = counter * kDrawsPerBlock;
    float values[kDrawsPerBlock];  // all under way before the first store
#pragma unroll
    for (std::size_t i = 0; i < kDrawsPerBlock; ++i) values[i] = first + i < size ? input[first + i] : 0.0f;
#pragma unroll
    for (std::size_t i = 0; i < kDrawsPerBlock; ++i)
      if (first + i < size) output[first + i] = uniform_of(block.words[i]) >= rate ? values[i] * factor : 0.0f;
  }
}

void dropout(View<const float> input, float rate, View<const std::uint64_t> key, View<float> output) {
  if (input.empty()) return;
  const Context& here = context(output.device());
  const std::size_t draws = (input.size() + kDrawsPerBlock - 1) / kDrawsPerBlock;
  launch(here, "dropout", here.blocks(draws, kThreads), kThreads, dropout_kernel, input.data(), rate,
         1.0f / (1.0f - rate), key.data(), output.data(), input.size());
}

[[maybe_unused]] const bool registered = dropout_table().add(DeviceType::kCuda, dropout);

}  // namespace
}  // namespace dragonn::kernels::cuda
