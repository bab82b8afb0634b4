// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/elementwise.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>

#include <hwy/highway.h>

#include "kernels/chunks.h"
#include "kernels/devices.h"
#include "kernels/nn/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Add {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Add(a, b);
  }
};
struct AddRelu {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return hn::Max(hn::Zero(d), hn::Add(a, b));  // in this order x86 keeps a NaN
  }
};
struct ReluBackward {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V output, V gradient) const {
    return hn::IfThenElseZero(hn::Gt(output, hn::Zero(d)), gradient);
  }
};

template <class Operation>
HWY_INLINE void map(const float* a, const float* b, float* result, std::size_t size) {
  const Operation operation;
  const hn::ScalableTag<float> whole;
  const hn::CappedTag<float, 1> single;
  std::size_t i = 0;
  for (; i + hn::Lanes(whole) <= size; i += hn::Lanes(whole))
    hn::StoreU(operation(whole, hn::LoadU(whole, a + i), hn::LoadU(whole, b + i)), whole, result + i);
  for (; i < size; ++i)
    hn::StoreU(operation(single, hn::LoadU(single, a + i), hn::LoadU(single, b + i)), single, result + i);
}

void add_piece(const float* a, const float* b, float* sum, std::size_t size) {
  map<Add>(a, b, sum, size);
}
void add_relu_piece(const float* a, const float* b, float* sum, std::size_t size) {
  map<AddRelu>(a, b, sum, size);
}
void relu_backward_piece(const float* output, const float* gradient, float* result, std::size_t size) {
  map<ReluBackward>(output, gradient, result, size);
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace {

HWY_EXPORT(add_piece);
HWY_EXPORT(add_relu_piece);
HWY_EXPORT(relu_backward_piece);

using Piece = void (*)(const float*, const float*, float*, std::size_t);

void run(Piece piece, View<const float> a, View<const float> b, View<float> result) {
  constexpr std::size_t kMinimumPiece = 16384;  // smaller pieces do not repay waking a thread
  const detail::Chunks chunks(a.size(), kMinimumPiece, 16);
  detail::for_each_chunk(chunks, [&](std::size_t chunk) {
    const std::size_t begin = chunks.begin(chunk);
    piece(a.data() + begin, b.data() + begin, result.data() + begin, chunks.end(chunk) - begin);
  });
}

void add_cpu(View<const float> a, View<const float> b, View<float> sum) {
  run(HWY_DYNAMIC_DISPATCH(add_piece), a, b, sum);
}
void add_relu_cpu(View<const float> a, View<const float> b, View<float> sum) {
  run(HWY_DYNAMIC_DISPATCH(add_relu_piece), a, b, sum);
}
void relu_backward_cpu(View<const float> output, View<const float> output_gradient, View<float> input_gradient) {
  run(HWY_DYNAMIC_DISPATCH(relu_backward_piece), output, output_gradient, input_gradient);
}

void fill_cpu(float value, View<float> target) {
  std::fill_n(target.data(), target.size(), value);
}

void dispatch(const BinaryTable& table, View<const float> a, View<const float> b, View<float> result) {
  if (a.size() != b.size() || a.size() != result.size())
    throw ShapeError(fmt::format("elementwise operation on {}, {} and {} elements: sizes must be equal", a.size(),
                                 b.size(), result.size()));
  table.at(a.device())(a, b, result);
}

}  // namespace

BinaryTable& add_table() {
  static BinaryTable table("add", add_cpu);
  return table;
}
BinaryTable& add_relu_table() {
  static BinaryTable table("add_relu", add_relu_cpu);
  return table;
}
BinaryTable& relu_backward_table() {
  static BinaryTable table("relu_backward", relu_backward_cpu);
  return table;
}
FillTable& fill_table() {
  static FillTable table("fill", fill_cpu);
  return table;
}

void add(View<const float> a, View<const float> b, View<float> sum) {
  dispatch(add_table(), a, b, sum);
}
void add_relu(View<const float> a, View<const float> b, View<float> sum) {
  dispatch(add_relu_table(), a, b, sum);
}
void relu_backward(View<const float> output, View<const float> output_gradient, View<float> input_gradient) {
  dispatch(relu_backward_table(), output, output_gradient, input_gradient);
}
void copy(View<const float> source, View<float> target) {
  if (source.size() != target.size())
    throw ShapeError(fmt::format("copy of {} elements to {}", source.size(), target.size()));
  transfer(source, target);
}
void fill(float value, View<float> target) {
  fill_table().at(target.device())(value, target);
}

}  // namespace dragonn::kernels
#endif
