// SPDX-License-Identifier: MIT
#include "kernels/cuda/elements.h"
#include "kernels/cuda/runtime.h"
#include "kernels/nn/embedding.h"

namespace dragonn::kernels::cuda {
namespace {

/// Returns whether a token is a row. In this form a NaN is none.
__device__ bool is_row(float token, std::size_t rows) {
  return token >= 0 && token < static_cast<float>(rows) && token == truncf(token);
}

/// Copies the rows of tokens. A token that is no row is written to `fault`, for the next wait.
template <class Element>
__global__ void embed_kernel(const float* tokens, const float* table, std::size_t rows, std::size_t width,
                             Writer<Element> output, std::size_t size, TokenFault* fault) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const auto [position, column] = split(i, width);
    const float token = tokens[position];
    if (!is_row(token, rows)) {
      if (column == 0) {
        atomicMin(&fault->first, static_cast<unsigned long long>(position) << 32 | __float_as_uint(token));
        fault->rows = static_cast<std::uint32_t>(rows);
      }
      continue;
    }
    output[i] = table[static_cast<std::size_t>(token) * width + column];
  }
}

/// Sums the gradients of tokens. A block takes a position, and a tile of columns (blockIdx.y). The first position of
/// every token sums all gradients of that token in their order: it lists them, some hundred at a time, and adds one
/// after the other, to zero or to what the table's gradient has.
template <class Element>
__global__ void sum_tokens_kernel(const float* tokens, std::size_t count, Reader<Element> output_gradient,
                                  std::size_t rows, std::size_t width, float* table_gradient) {
  __shared__ std::size_t listed[kThreads];
  __shared__ unsigned warp_counts[kThreads / 32];
  const std::size_t own = blockIdx.x, column = static_cast<std::size_t>(blockIdx.y) * kThreads + threadIdx.x;
  const float token = tokens[own];
  if (!is_row(token, rows)) return;
  for (std::size_t begin = 0; begin < own; begin += kThreads) {
    const std::size_t before = begin + threadIdx.x;
    if (__syncthreads_or(before < own && tokens[before] == token)) return;  // not the first
  }
  float* const target = table_gradient + static_cast<std::size_t>(token) * width + column;
  float sum = column < width ? *target : 0;
  for (std::size_t begin = own; begin < count; begin += kThreads) {
    const std::size_t position = begin + threadIdx.x;
    const bool equal = position < count && tokens[position] == token;
    const unsigned warp = threadIdx.x / 32, votes = __ballot_sync(0xFFFFFFFFu, equal);
    if (threadIdx.x % 32 == 0) warp_counts[warp] = __popc(votes);
    __syncthreads();
    unsigned place = __popc(votes & ((1u << threadIdx.x % 32) - 1)), found = 0;
    for (unsigned w = 0; w < kThreads / 32; ++w) {
      if (w < warp) place += warp_counts[w];
      found += warp_counts[w];
    }
    if (equal) listed[place] = position;
    __syncthreads();
    if (column < width)
      for (unsigned i = 0; i < found; ++i) sum += output_gradient[listed[i] * width + column];
    __syncthreads();  // the list is overwritten next
  }
  if (column < width) *target = sum;
}

void embed(View<const float> tokens, View<const float> table, std::size_t width, TypedView<float> output) {
  if (tokens.empty()) return;
  Context& here = context(output.device());
  with_element(output.type(), [&](auto element) {
    launch_over(here, "embed", output.size(), embed_kernel<decltype(element)>, tokens.data(), table.data(),
                table.size() / width, width, output, output.size(), here.faults().token());
  });
}

void embed_backward(View<const float> tokens, TypedView<const float> output_gradient, std::size_t width,
                    View<float> table_gradient, bool adds) {
  const Context& here = context(table_gradient.device());
  if (!adds)
    check(cudaMemsetAsync(table_gradient.data(), 0, table_gradient.size() * sizeof(float), here.stream()),
          "cudaMemsetAsync");
  if (tokens.empty()) return;
  const dim3 blocks(static_cast<unsigned>(tokens.size()), static_cast<unsigned>((width + kThreads - 1) / kThreads));
  with_element(output_gradient.type(), [&](auto element) {
    launch(here, "embed_backward", blocks, kThreads, sum_tokens_kernel<decltype(element)>, tokens.data(), tokens.size(),
           output_gradient, table_gradient.size() / width, width, table_gradient.data());
  });
}

template <class Element>
__global__ void add_positions_kernel(Reader<Element> input, const float* table, std::size_t sample,
                                     Writer<Element> output, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride())
    output[i] = input[i] + table[split(i, sample).remainder];
}

/// Computes the table's gradient: every element sums over the batch in its order.
template <class Element>
__global__ void add_positions_backward_kernel(Reader<Element> output_gradient, std::size_t sample, std::size_t batch,
                                              float* table_gradient, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    float sum = 0;
    if (i < sample)
      for (std::size_t b = 0; b < batch; ++b) sum += output_gradient[b * sample + i];
    table_gradient[i] = sum;
  }
}

void add_positions_on_gpu(TypedView<const float> input, View<const float> table, std::size_t steps, std::size_t width,
                          TypedView<float> output) {
  if (input.empty()) return;
  const Context& here = context(output.device());
  with_element(output.type(), [&](auto element) {
    launch_over(here, "add_positions", input.size(), add_positions_kernel<decltype(element)>, input, table.data(),
                steps * width, output, input.size());
  });
}

void add_positions_backward_on_gpu(TypedView<const float> output_gradient, std::size_t steps, std::size_t width,
                                   View<float> table_gradient) {
  const Context& here = context(table_gradient.device());
  const std::size_t sample = steps * width;
  with_element(output_gradient.type(), [&](auto element) {
    launch_over(here, "add_positions_backward", table_gradient.size(), add_positions_backward_kernel<decltype(element)>,
                output_gradient, sample, output_gradient.size() / sample, table_gradient.data(), table_gradient.size());
  });
}

[[maybe_unused]] const bool registered =
    kernels::embed.add(DeviceType::kCuda, embed) && kernels::embed_backward.add(DeviceType::kCuda, embed_backward) &&
    kernels::add_positions.add(DeviceType::kCuda, add_positions_on_gpu) &&
    kernels::add_positions_backward.add(DeviceType::kCuda, add_positions_backward_on_gpu);

}  // namespace
}  // namespace dragonn::kernels::cuda
