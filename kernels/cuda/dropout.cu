// SPDX-License-Identifier: MIT
#include "core/philox.h"
#include "kernels/cuda/runtime.h"
#include "kernels/dropout.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr std::size_t kDrawsPerBlock = 4;

/// A thread has a block of four draws of the stream, and its elements. In place too.
__global__ void dropout_kernel(const float* input, float rate, float factor, std::uint64_t key, float* output,
                               std::size_t size) {
  const std::size_t draws = (size + kDrawsPerBlock - 1) / kDrawsPerBlock;
  for (std::size_t counter = first_element(); counter < draws; counter += element_stride()) {
    const PhiloxBlock block = stream_block(key, counter);
    for (std::size_t word = 0; word < kDrawsPerBlock; ++word) {
      const std::size_t i = counter * kDrawsPerBlock + word;
      if (i < size) output[i] = uniform_of(block.words[word]) >= rate ? input[i] * factor : 0.0f;
    }
  }
}

void dropout(View<const float> input, float rate, std::uint64_t key, View<float> output) {
  if (input.empty()) return;
  const Context& here = context(output.device());
  const std::size_t draws = (input.size() + kDrawsPerBlock - 1) / kDrawsPerBlock;
  dropout_kernel<<<here.blocks(draws, kThreads), kThreads, 0, here.stream()>>>(input.data(), rate, 1.0f / (1.0f - rate),
                                                                               key, output.data(), input.size());
  check_launch("dropout");
}

[[maybe_unused]] const bool registered = dropout_table().add(DeviceType::kCuda, dropout);

}  // namespace
}  // namespace dragonn::kernels::cuda
