// SPDX-License-Identifier: MIT
#include "core/rng.h"
#include "kernels/cuda/elements.h"
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

struct Identity {
  __device__ float operator()(float value) const { return value; }
};

template <class Operation>
void binary(TypedView<const float> a, TypedView<const float> b, TypedView<float> result) {
  map("elementwise", Operation{}, result, a, b);
}

void fill(float value, View<float> target) {
  map("fill", Constant{value}, target);
}

void convert(TypedView<const float> source, TypedView<float> target) {
  with_element(source.type(), [&](auto from) {
    with_element(target.type(), [&](auto to) {
      map_elements(context(target.device()), "convert", Identity{}, target.size(), target.as<decltype(to)>(),
                   source.as<decltype(from)>());
    });
  });
}

constexpr std::size_t kDrawsPerBlock = 4;

/// Applies dropout, in place if asked. A thread takes a block of four draws of the stream, and its elements.
template <class Element>
__global__ void dropout_kernel(const Element* input, float rate, float factor, const std::uint64_t* key, bool aligned,
                               Element* output, std::size_t size) {
  using Draws = Pack<Element, kDrawsPerBlock>;
  const std::size_t draws = (size + kDrawsPerBlock - 1) / kDrawsPerBlock;
  for (std::size_t counter = first_element(); counter < draws; counter += element_stride()) {
    const PhiloxBlock block = stream_block(*key, counter);
    const std::size_t first = counter * kDrawsPerBlock, count = min(kDrawsPerBlock, size - first);
    const bool whole = aligned && count == kDrawsPerBlock;
    Draws values;  // all under way before the first store
    if (whole)
      values = reinterpret_cast<const Draws*>(input)[counter];
    else
      for (std::size_t i = 0; i < count; ++i) values.values[i] = input[first + i];
    for (std::size_t i = 0; i < count; ++i)
      values.values[i] = narrow<Element>(uniform_of(block.words[i]) >= rate ? widen(values.values[i]) * factor : 0.0f);
    if (whole)
      reinterpret_cast<Draws*>(output)[counter] = values;
    else
      for (std::size_t i = 0; i < count; ++i) output[first + i] = values.values[i];
  }
}

void dropout(TypedView<const float> input, float rate, View<const std::uint64_t> key, TypedView<float> output) {
  if (input.empty()) return;
  const Context& here = context(output.device());
  const std::size_t draws = (input.size() + kDrawsPerBlock - 1) / kDrawsPerBlock;
  const bool aligned = is_aligned(input.raw()) && is_aligned(output.raw());
  with_element(output.type(), [&](auto element) {
    using Element = decltype(element);
    launch_over(here, "dropout", draws, dropout_kernel<Element>, input.as<Element>(), rate, 1.0f / (1.0f - rate),
                key.data(), aligned, output.as<Element>(), input.size());
  });
}

[[maybe_unused]] const bool registered =
    kernels::add.add(DeviceType::kCuda, binary<Add>) && kernels::add_relu.add(DeviceType::kCuda, binary<AddRelu>) &&
    kernels::relu_backward.add(DeviceType::kCuda, binary<ReluBackward>) && kernels::fill.add(DeviceType::kCuda, fill) &&
    kernels::dropout.add(DeviceType::kCuda, dropout) && kernels::convert.add(DeviceType::kCuda, convert);

}  // namespace
}  // namespace dragonn::kernels::cuda
