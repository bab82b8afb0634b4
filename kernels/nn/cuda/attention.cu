// SPDX-License-Identifier: MIT
#include <cmath>

#include "kernels/nn/attention.h"
#include "kernels/nn/cuda/gemm.h"
#include "kernels/nn/cuda/softmax_rows.h"

namespace dragonn::kernels::cuda {
namespace {

/// The matrices of all samples and heads, with the distances from row to row, head to head, sample to sample.
template <class T>
struct HeadMatrices {
  T* data;
  std::int64_t row, head, sample;
  bool transposed = false;

  HeadMatrices transpose() const { return {data, row, head, sample, !transposed}; }
};
using Operand = HeadMatrices<const float>;
using Result = HeadMatrices<float>;

/// The number of steps that a row of the attention weights, [batch, heads, steps, steps], sees.
struct Visible {
  const std::int32_t* lengths;  // null: all steps are valid
  std::size_t heads, steps;
  bool causal;

  __device__ std::size_t of(std::size_t row) const {
    const std::size_t step = row % steps, sample = row / steps / heads;
    const std::size_t length = lengths == nullptr ? steps : static_cast<std::size_t>(lengths[sample]);
    return step >= length ? 0 : causal ? step + 1 : length;
  }
};

/// Turns scores into weights, a block per row: their softmax over the visible steps, zeros for the others. One thread
/// reads and writes an element, except for the largest, which all have read before the last barrier of softmax_sums.
__global__ void normalize_kernel(Visible visible, float scale, float* weights) {
  float* row = weights + blockIdx.x * visible.steps;
  const std::size_t count = visible.of(blockIdx.x);
  for (std::size_t i = threadIdx.x; i < visible.steps; i += blockDim.x) row[i] = i < count ? row[i] * scale : 0.0f;
  if (count == 0) return;
  __syncthreads();
  const SoftmaxSums sums = softmax_sums(row, count);
  const auto factor = static_cast<float>(1 / sums.exponentials);
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x)
    row[i] = isfinite(sums.distances) ? expf(row[i] - sums.largest) * factor : nanf("");
}

/// Turns the weights' gradient into the scores', a block per row.
__global__ void scores_gradient_kernel(Visible visible, float scale, const float* weights, float* gradient) {
  const std::size_t row = blockIdx.x * visible.steps, count = visible.of(blockIdx.x);
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x)
    sum += static_cast<double>(weights[row + i]) * gradient[row + i];
  const auto mean = static_cast<float>(block_reduce(sum, Sum()));
  for (std::size_t i = threadIdx.x; i < visible.steps; i += blockDim.x)
    gradient[row + i] = i < count ? weights[row + i] * (gradient[row + i] - mean) * scale : 0.0f;
}

class CudaAttention final : public AttentionPlan {
 public:
  CudaAttention(const Device& device, const AttentionSpec& spec)
      : device_(device),
        math_(context(device).math()),
        spec_(spec),
        depth_(spec.width / spec.heads),
        rows_(static_cast<std::size_t>(spec.batch * spec.heads * spec.steps)),
        weights_(aligned_floats(rows_ * static_cast<std::size_t>(spec.steps))) {}

  PlanMemory memory() const override { return {weights_, 0, spec_.training ? weights_ : 0}; }

  void forward(const AttentionForward& arguments) override {
    Context& here = context(device_);
    const auto input = parts(arguments.input.data());
    float* weights = arguments.saved.data();
    multiply_heads(here, input.queries, input.keys.transpose(), spec_.steps, depth_, square(weights));
    launch(here, "attention_weights", static_cast<unsigned>(rows_), threads(), normalize_kernel,
           visible(here, arguments.lengths), scale(), weights);
    multiply_heads(here, square<const float>(weights), input.values, depth_, spec_.steps,
                   output(arguments.output.data()));
  }

  void backward(const AttentionBackward& arguments) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    Context& here = context(device_);
    const auto input = parts(arguments.input.data());
    const auto gradient = parts(arguments.input_gradient.data());
    const Operand weights = square(arguments.saved.data()), output_gradient = output(arguments.output_gradient.data());
    multiply_heads(here, output_gradient, input.values.transpose(), spec_.steps, depth_,
                   square(arguments.scratch.data()));
    launch(here, "attention_scores_gradient", static_cast<unsigned>(rows_), threads(), scores_gradient_kernel,
           visible(here, arguments.lengths), scale(), weights.data, arguments.scratch.data());
    const Operand scores = square<const float>(arguments.scratch.data());
    multiply_heads(here, scores, input.keys, depth_, spec_.steps, gradient.queries);
    multiply_heads(here, scores.transpose(), input.queries, depth_, spec_.steps, gradient.keys);
    multiply_heads(here, weights.transpose(), output_gradient, depth_, spec_.steps, gradient.values);
  }

 private:
  /// The parts of the input, where each step has the three one after the other, or of its gradient.
  template <class T>
  struct Parts {
    HeadMatrices<T> queries, keys, values;
  };
  template <class T>
  Parts<T> parts(T* input) const {
    const auto part = [&](std::int64_t which) {
      return HeadMatrices<T>{input + which * spec_.width, 3 * spec_.width, depth_, spec_.steps * 3 * spec_.width};
    };
    return {part(0), part(1), part(2)};
  }
  template <class T>
  HeadMatrices<T> output(T* data) const {
    return {data, spec_.width, depth_, spec_.steps * spec_.width};
  }
  template <class T>
  HeadMatrices<T> square(T* data) const {
    return {data, spec_.steps, spec_.steps * spec_.steps, spec_.heads * spec_.steps * spec_.steps};
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(depth_)); }
  unsigned threads() const { return row_threads(static_cast<std::size_t>(spec_.steps)); }
  Visible visible(Context& here, std::span<const std::int32_t> lengths) const {
    return {lengths.empty() ? nullptr : here.stage({lengths}), static_cast<std::size_t>(spec_.heads),
            static_cast<std::size_t>(spec_.steps), spec_.causal};
  }

  /// Computes result [steps, columns] = a * b for all samples and heads. A call of cuBLAS has a batch with one distance
  /// between its matrices: the samples of one head, or the heads of one sample, whichever needs fewer calls.
  void multiply_heads(Context& here, const Operand& a, const Operand& b, std::int64_t columns, std::int64_t inner,
                      const Result& result) const {
    const bool by_head = spec_.heads <= spec_.batch;
    const std::int64_t calls = by_head ? spec_.heads : spec_.batch;
    const auto begin = [&](const auto& of, std::int64_t call) {
      return of.data + call * (by_head ? of.head : of.sample);
    };
    const auto next = [&](const auto& of) { return by_head ? of.sample : of.head; };
    for (std::int64_t call = 0; call < calls; ++call)
      multiply(here, math_,
               {.rows = spec_.steps,
                .columns = columns,
                .inner = inner,
                .a = {begin(a, call), a.row, a.transposed, next(a)},
                .b = {begin(b, call), b.row, b.transposed, next(b)},
                .result = begin(result, call),
                .stride = result.row,
                .next = next(result),
                .batch = by_head ? spec_.batch : spec_.heads});
  }

  Device device_;
  DeviceMath math_;
  AttentionSpec spec_;
  std::int64_t depth_;
  std::size_t rows_, weights_;
};

[[maybe_unused]] const bool registered =
    kernels::make_attention_plan.add(DeviceType::kCuda, construct_plan<CudaAttention>);

}  // namespace
}  // namespace dragonn::kernels::cuda
