// SPDX-License-Identifier: MIT
#include "core/philox.h"
#include "kernels/cuda/map.h"
#include "kernels/cuda/runtime.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::kernels::cuda {
namespace {

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct AddRelu {
  __device__ float operator()(float a, float b) const {
    const float sum = a + b;
    return sum <= 0 ? 0.0f : sum;  // keeps a NaN
  }
};
struct ReluBackward {
  __device__ float operator()(float output, float output_gradient) const { return output > 0 ? output_gradient : 0.0f; }
};
struct Constant {
  __device__ float operator()() const { return value; }
  float value;
};

template <class Operation>
void binary(View<const float> a, View<const float> b, View<float> result) {
  map("elementwise", Operation{}, result, a.data(), b.data());
}

void fill(float value, View<float> target) {
  map("fill", Constant{value}, target);
}

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
  launch_over(here, "dropout", draws, dropout_kernel, input.data(), rate, 1.0f / (1.0f - rate), key.data(),
              output.data(), input.size());
}

[[maybe_unused]] const bool registered =
    kernels::add.add(DeviceType::kCuda, binary<Add>) && kernels::add_relu.add(DeviceType::kCuda, binary<AddRelu>) &&
    kernels::relu_backward.add(DeviceType::kCuda, binary<ReluBackward>) && kernels::fill.add(DeviceType::kCuda, fill) &&
    kernels::dropout.add(DeviceType::kCuda, dropout);

}  // namespace
}  // namespace dragonn::kernels::cuda
