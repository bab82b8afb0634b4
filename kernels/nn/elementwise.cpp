// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/elementwise.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>
#include <array>
#include <span>

#include <hwy/highway.h>

#include "kernels/devices.h"
#include "kernels/nn/elementwise.h"
#include "kernels/partial_sums-inl.h"
#include "kernels/pieces.h"
#include "kernels/uniform_draws.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Operation>
HWY_INLINE void map(const float* a, const float* b, float* result, std::size_t size, const Operation& operation) {
  detail::HWY_NAMESPACE::for_each_element(size, [&](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(operation(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, result + i);
  });
}

void add_piece(const float* a, const float* b, float* sum, std::size_t size) {
  map(a, b, sum, size, [](auto, auto x, auto y) HWY_ATTR { return hn::Add(x, y); });
}
void add_relu_piece(const float* a, const float* b, float* sum, std::size_t size) {
  // In this order x86 keeps a NaN.
  map(a, b, sum, size, [](auto d, auto x, auto y) HWY_ATTR { return hn::Max(hn::Zero(d), hn::Add(x, y)); });
}
void relu_backward_piece(const float* output, const float* gradient, float* result, std::size_t size) {
  map(output, gradient, result, size,
      [](auto d, auto y, auto slope) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), slope); });
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

void run(Piece piece, TypedView<const float> a, TypedView<const float> b, TypedView<float> result) {
  const detail::Chunks chunks(a.size(), kMinPiece, 16);
  detail::for_each_chunk(chunks, [&](std::size_t chunk) {
    const std::size_t begin = chunks.begin(chunk);
    piece(a.data() + begin, b.data() + begin, result.data() + begin, chunks.end(chunk) - begin);
  });
}

void add_cpu(TypedView<const float> a, TypedView<const float> b, TypedView<float> sum) {
  run(HWY_DYNAMIC_DISPATCH(add_piece), a, b, sum);
}
void add_relu_cpu(TypedView<const float> a, TypedView<const float> b, TypedView<float> sum) {
  run(HWY_DYNAMIC_DISPATCH(add_relu_piece), a, b, sum);
}
void relu_backward_cpu(TypedView<const float> output, TypedView<const float> output_gradient,
                       TypedView<float> input_gradient) {
  run(HWY_DYNAMIC_DISPATCH(relu_backward_piece), output, output_gradient, input_gradient);
}

void fill_cpu(float value, View<float> target) {
  for_each_piece(target.size(), kMinPiece, [&](std::size_t, std::size_t begin, std::size_t end) {
    std::fill(target.data() + begin, target.data() + end, value);
  });
}

bool check_sizes(TypedView<const float> a, TypedView<const float> b, TypedView<float> result) {
  if (a.size() != b.size() || a.size() != result.size())
    throw ShapeError(fmt::format("elementwise operation on {}, {} and {} elements: sizes must be equal", a.size(),
                                 b.size(), result.size()));
  return true;
}

void dropout_cpu(TypedView<const float> input, float rate, View<const std::uint64_t> key, TypedView<float> output) {
  constexpr std::size_t kDraws = 1024;
  const float factor = 1.0f / (1.0f - rate);
  const std::uint64_t stream = key.host()[0];
  const detail::Chunks chunks(input.size(), kMinPiece, kDraws);
  detail::for_each_chunk(chunks, [&](std::size_t chunk) {
    std::array<float, kDraws> draws;
    for (std::size_t begin = chunks.begin(chunk); begin < chunks.end(chunk); begin += kDraws) {
      const std::size_t count = std::min(kDraws, chunks.end(chunk) - begin);
      uniform_draws(stream, begin, std::span(draws).first(count));
      const float* from = input.data() + begin;
      float* to = output.data() + begin;
      for (std::size_t i = 0; i < count; ++i) to[i] = draws[i] >= rate ? from[i] * factor : 0.0f;
    }
  });
}

}  // namespace

constinit decltype(add) add("add", add_cpu, check_sizes);
constinit decltype(add_relu) add_relu("add_relu", add_relu_cpu, check_sizes);
constinit decltype(relu_backward) relu_backward("relu_backward", relu_backward_cpu, check_sizes);
constinit decltype(fill) fill("fill", fill_cpu);

namespace {
bool check_copy(TypedView<const float> source, TypedView<float> target) {
  if (source.size() != target.size())
    throw ShapeError(fmt::format("copy of {} elements to {}", source.size(), target.size()));
  return true;
}
}  // namespace

void copy(TypedView<const float> source, TypedView<float> target) {
  check_copy(source, target);
  with_element(target.type(), [&](auto element) {
    using Element = decltype(element);
    transfer(View<const Element>(source.as<Element>(), source.size(), source.device()),
             View<Element>(target.as<Element>(), target.size(), target.device()));
  });
}

constinit decltype(convert) convert(
    "convert",
    [](TypedView<const float> source, TypedView<float> target) { transfer(source.floats(), target.floats()); },
    check_copy);

constinit decltype(dropout) dropout("dropout", dropout_cpu, [](auto input, float, auto key, auto output) {
  if (input.size() != output.size() || key.size() != 1)
    throw ShapeError(
        fmt::format("dropout of {} elements into {} with {} keys", input.size(), output.size(), key.size()));
  return true;
});

}  // namespace dragonn::kernels
#endif
