// SPDX-License-Identifier: MIT
#include "kernels/cuda/elements.h"
#include "kernels/cuda/runtime.h"
#include "kernels/nn/cuda/columns.h"
#include "kernels/nn/sequence_rows.h"

namespace dragonn::kernels::cuda {
namespace {

using Lengths = std::span<const std::int32_t>;

/// Returns the lengths on the GPU; null if all steps are valid.
const std::int32_t* staged(Context& here, Lengths lengths) {
  return lengths.empty() ? nullptr : here.stage({lengths});
}

__device__ bool is_valid(const std::int32_t* lengths, std::size_t sample, std::size_t t) {
  return lengths == nullptr || static_cast<std::int64_t>(t) < lengths[sample];
}

/// Copies to time-major order. Elements are numbered in the order of the time-major side.
template <class From, class To>
__global__ void to_time_major_kernel(SequenceRows rows, Reader<From> batch_major, const std::int32_t* lengths,
                                     Writer<To> time_major, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split row = split(i, rows.size), step = split(row.quotient, rows.batch);
    const std::size_t sample = step.remainder, t = step.quotient;
    const std::size_t from = (sample * rows.steps + t) * rows.width + rows.offset + row.remainder;
    time_major[i] = is_valid(lengths, sample, t) ? batch_major[from] : 0.0f;
  }
}

template <class From, class To>
__global__ void to_batch_major_kernel(SequenceRows rows, Reader<From> time_major, const std::int32_t* lengths, bool add,
                                      Writer<To> batch_major, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split row = split(i, rows.size), step = split(row.quotient, rows.steps);
    const std::size_t sample = step.quotient, t = step.remainder;
    const std::size_t to = row.quotient * rows.width + rows.offset + row.remainder;
    const float before = add ? batch_major[to] : 0.0f;
    const float own =
        is_valid(lengths, sample, t) ? time_major[(t * rows.batch + sample) * rows.size + row.remainder] : 0.0f;
    batch_major[to] = before + own;
  }
}

template <class Element>
__global__ void mask_kernel(SequenceRows rows, Reader<Element> input, const std::int32_t* lengths,
                            Writer<Element> output, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split step = split(split(i, rows.size).quotient, rows.steps);
    output[i] = is_valid(lengths, step.quotient, step.remainder) ? input[i] : 0.0f;
  }
}

/// Calls body(value of the source's element, value of the target's element).
template <class Body>
void with_elements(TypedView<const float> source, TypedView<float> target, const Body& body) {
  with_element(source.type(), [&](auto from) { with_element(target.type(), [&](auto to) { body(from, to); }); });
}

void to_time_major(const SequenceRows& rows, TypedView<const float> batch_major, Lengths lengths,
                   TypedView<float> time_major) {
  if (time_major.empty()) return;
  Context& here = context(time_major.device());
  const std::int32_t* placed = staged(here, lengths);
  with_elements(batch_major, time_major, [&](auto from, auto to) {
    launch_over(here, "to_time_major", time_major.size(), to_time_major_kernel<decltype(from), decltype(to)>, rows,
                batch_major, placed, time_major, time_major.size());
  });
}

void to_batch_major(const SequenceRows& rows, TypedView<const float> time_major, Lengths lengths, bool add,
                    TypedView<float> batch_major) {
  if (time_major.empty()) return;
  Context& here = context(batch_major.device());
  const std::int32_t* placed = staged(here, lengths);
  with_elements(time_major, batch_major, [&](auto from, auto to) {
    launch_over(here, "to_batch_major", time_major.size(), to_batch_major_kernel<decltype(from), decltype(to)>, rows,
                time_major, placed, add, batch_major, time_major.size());
  });
}

/// Masks whole rows: `size` is `width`.
void mask_steps(const SequenceRows& rows, TypedView<const float> input, Lengths lengths, TypedView<float> output) {
  if (input.empty()) return;
  Context& here = context(output.device());
  const std::int32_t* placed = staged(here, lengths);
  with_element(output.type(), [&](auto element) {
    launch_over(here, "mask_steps", input.size(), mask_kernel<decltype(element)>, rows, input, placed, output,
                input.size());
  });
}

constexpr unsigned kTile = 32;
constexpr unsigned kTileRows = 8;  // rows of a tile that a block moves at a time

/// Transposes by tiles in shared memory, so that both sides are read and written along rows. A tile has a column more
/// than it needs, which puts a column's elements into different banks. Tiles are numbered along blockIdx.x, then
/// matrices.
template <class From, class To>
__global__ void transpose_kernel(Reader<From> input, std::size_t rows, std::size_t columns, Writer<To> output) {
  __shared__ float tile[kTile][kTile + 1];
  const std::size_t across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  const std::size_t matrix = blockIdx.x / (across * down), place = blockIdx.x % (across * down);
  const std::size_t left = place % across * kTile, top = place / across * kTile, begin = matrix * rows * columns;
  for (unsigned r = threadIdx.y; r < kTile; r += kTileRows)
    if (top + r < rows && left + threadIdx.x < columns)
      tile[r][threadIdx.x] = input[begin + (top + r) * columns + left + threadIdx.x];
  __syncthreads();
  for (unsigned c = threadIdx.y; c < kTile; c += kTileRows)
    if (left + c < columns && top + threadIdx.x < rows)
      output[begin + (left + c) * rows + top + threadIdx.x] = tile[threadIdx.x][c];
}

void swap(TypedView<const float> input, std::size_t rows, std::size_t columns, TypedView<float> output) {
  if (input.empty()) return;
  const Context& here = context(output.device());
  const std::size_t across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  const auto blocks = static_cast<unsigned>(across * down * (input.size() / (rows * columns)));
  with_elements(input, output, [&](auto from, auto to) {
    launch(here, "swap_axes", blocks, dim3(kTile, kTileRows), transpose_kernel<decltype(from), decltype(to)>, input,
           rows, columns, output);
  });
}

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

[[maybe_unused]] const bool registered = kernels::to_time_major.add(DeviceType::kCuda, to_time_major) &&
                                         kernels::to_batch_major.add(DeviceType::kCuda, to_batch_major) &&
                                         kernels::mask_steps.add(DeviceType::kCuda, mask_steps) &&
                                         kernels::swap_axes.add(DeviceType::kCuda, swap) &&
                                         kernels::lookahead_forward.add(DeviceType::kCuda, forward) &&
                                         kernels::lookahead_backward.add(DeviceType::kCuda, backward);

}  // namespace
}  // namespace dragonn::kernels::cuda
