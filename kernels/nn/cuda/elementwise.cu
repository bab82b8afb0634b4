// SPDX-License-Identifier: MIT
#include "kernels/cuda/map.h"
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

[[maybe_unused]] const bool registered =
    add_table().add(DeviceType::kCuda, binary<Add>) && add_relu_table().add(DeviceType::kCuda, binary<AddRelu>) &&
    relu_backward_table().add(DeviceType::kCuda, binary<ReluBackward>) && fill_table().add(DeviceType::kCuda, fill);

}  // namespace
}  // namespace dragonn::kernels::cuda
