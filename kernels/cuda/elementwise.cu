// SPDX-License-Identifier: MIT
#include "kernels/cuda/runtime.h"
#include "kernels/devices.h"
#include "kernels/elementwise.h"

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

// The result may be one of the arguments: each element is read before it is written, by the same thread.
template <class Operation>
__global__ void binary_kernel(const float* a, const float* b, float* result, std::size_t size, Operation operation) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) result[i] = operation(a[i], b[i]);
}

template <class Operation>
void binary(View<const float> a, View<const float> b, View<float> result) {
  if (result.empty()) return;
  const Context& here = context(result.device());
  binary_kernel<<<here.blocks(result.size(), kThreads), kThreads, 0, here.stream()>>>(a.data(), b.data(), result.data(),
                                                                                      result.size(), Operation{});
  check_launch("elementwise");
}

__global__ void fill_kernel(float value, float* target, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) target[i] = value;
}

void fill(float value, View<float> target) {
  if (target.empty()) return;
  const Context& here = context(target.device());
  fill_kernel<<<here.blocks(target.size(), kThreads), kThreads, 0, here.stream()>>>(value, target.data(),
                                                                                    target.size());
  check_launch("fill");
}

[[maybe_unused]] const bool registered =
    add_table().add(DeviceType::kCuda, binary<Add>) && add_relu_table().add(DeviceType::kCuda, binary<AddRelu>) &&
    relu_backward_table().add(DeviceType::kCuda, binary<ReluBackward>) && fill_table().add(DeviceType::kCuda, fill);

}  // namespace
}  // namespace dragonn::kernels::cuda
