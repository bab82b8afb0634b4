// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/runtime.h"
#include "kernels/nn/attention.h"
#include "kernels/nn/cuda/fused_attention.h"
#include "kernels/nn/cuda/gemm.h"
#include "kernels/nn/cuda/softmax_rows.h"

namespace dragonn::kernels::cuda {
namespace {

/// The matrices of all samples and heads, with the distances from row to row, head to head, sample to sample.
template <class Void>
struct HeadMatrices {
  Void* data;
  ElementType type;
  std::int64_t row, head, sample;
  bool transposed = false;

  HeadMatrices transpose() const { return {data, type, row, head, sample, !transposed}; }
  Void* at(std::int64_t element) const {
    using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
    return static_cast<Byte*>(data) + element * static_cast<std::int64_t>(bytes_of(type));
  }
};
using Operand = HeadMatrices<const void>;
using Result = HeadMatrices<void>;

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

/// Turns scores into weights, a block per row: their softmax over the visible steps, zeros for the others. `weights`
/// may be the scores: one thread reads and writes an element, except for the largest, which all have read before the
/// last barrier of softmax_sums.
template <class Element>
__global__ void normalize_kernel(Visible visible, float scale, float* scores, Writer<Element> weights) {
  float* row = scores + blockIdx.x * visible.steps;
  const Writer<Element> target = weights + blockIdx.x * visible.steps;
  const std::size_t count = visible.of(blockIdx.x);
  for (std::size_t i = threadIdx.x; i < visible.steps; i += blockDim.x)
    if (i < count)
      row[i] *= scale;
    else
      target[i] = 0;
  if (count == 0) return;
  __syncthreads();
  const SoftmaxSums sums = softmax_sums(row, count);
  const auto factor = static_cast<float>(1 / sums.exponentials);
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x)
    target[i] = isfinite(sums.distances) ? expf(row[i] - sums.largest) * factor : nanf("");
}

/// Turns the weights' gradient into the scores', a block per row.
template <class Element>
__global__ void scores_gradient_kernel(Visible visible, float scale, Reader<Element> weights,
                                       Writer<Element> gradient) {
  const std::size_t row = blockIdx.x * visible.steps, count = visible.of(blockIdx.x);
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x)
    sum += static_cast<double>(weights[row + i]) * gradient[row + i];
  const auto mean = static_cast<float>(block_reduce(sum, Sum()));
  for (std::size_t i = threadIdx.x; i < visible.steps; i += blockDim.x)
    gradient[row + i] = i < count ? weights[row + i] * (gradient[row + i] - mean) * scale : 0.0f;
}

/// Warns that attention keeps its weights in memory, once per shape.
void warn_of_weights(const AttentionSpec& spec, const std::string& reason) {
  warn_of_slower_way(fmt::format("attention with {} heads of {} over {} steps keeps its weights in memory", spec.heads,
                                 spec.width / spec.heads, spec.steps),
                     reason);
}

/// Does passes in bf16 by fused attention, if there is one and all steps are valid. Otherwise keeps weights in the type
/// of the data. Scores are float32: a softmax of rounded ones would multiply their error by their size.
class CudaAttention final : public Plan {
 public:
  CudaAttention(const Device& device, const AttentionSpec& spec)
      : device_(context(device).device()),  // which refuses a GPU that is not there
        spec_(spec),
        depth_(spec.width / spec.heads),
        rows_(static_cast<std::size_t>(spec.batch * spec.heads * spec.steps)),
        weights_(rows_ * static_cast<std::size_t>(spec.steps)) {
    if (spec.type != ElementType::kBf16) return;
    std::string obstacle;
    fused_ = make_fused_attention(device, spec, obstacle);
    if (fused_ == nullptr) warn_of_weights(spec, obstacle);
  }

  /// Has room for weights beside fused attention: for passes with lengths, and for those that cuDNN refuses.
  PlanMemory memory() const override {
    const std::size_t weights = floats_for_bytes(weights_ * bytes_of(spec_.type));
    const PlanMemory plain{weights, score_floats(), spec_.training ? weights : 0};
    if (fused_ == nullptr) return plain;
    const std::size_t backward = std::max({weights, score_floats(), floats_for_bytes(fused_->backward_bytes())});
    return {std::max(weights, aligned_floats(rows_)),
            std::max(score_floats(), floats_for_bytes(fused_->forward_bytes())), spec_.training ? backward : 0};
  }

  std::vector<PassDescription> describe() const override {
    if (spec_.type != ElementType::kBf16) return {};
    const bool fused = fused_ != nullptr;
    const auto pass = [&](const char* name, std::size_t bytes) {
      return PassDescription{name, fused ? kFusedAttention : kPlainAttention, "tensor_op", bytes};
    };
    std::vector<PassDescription> passes{pass("forward", fused ? fused_->forward_bytes() : 0)};
    if (spec_.training) passes.push_back(pass("backward", fused ? fused_->backward_bytes() : 0));
    return passes;
  }

  void forward(const ForwardPass& pass) override {
    if (does_fused(pass.lengths)) {
      const std::string refusal = fused_->forward(
          {pass.inputs[0].raw(), pass.output.raw(), spec_.training ? pass.saved.data() : nullptr, pass.scratch.data()});
      if (refusal.empty()) return;
      drop_fused(refusal);
    }
    Context& here = context(device_);
    const TypedView<float> weights(pass.saved.data(), weights_, spec_.type, device_);
    compute_weights(here, pass.inputs[0], pass.lengths, in_place() ? pass.saved.data() : pass.scratch.data(), weights);
    multiply_heads(here, square<const void>(weights.raw(), spec_.type), parts(pass.inputs[0].raw()).values, depth_,
                   spec_.steps, output<void>(pass.output.raw()));
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    if (does_fused(pass.lengths)) {
      const std::string refusal =
          fused_->backward({pass.inputs[0].raw(), pass.output.raw(), pass.output_gradients[0].raw(), pass.saved.data(),
                            pass.input_gradients[0].raw(), pass.scratch.data()});
      if (refusal.empty()) return;
      drop_fused(refusal);
      // Forward left no weights: they take the place of its statistics.
      const TypedView<float> weights(const_cast<float*>(pass.saved.data()), weights_, spec_.type, device_);
      compute_weights(context(device_), pass.inputs[0], {}, pass.scratch.data(), weights);
    }
    backward_from_weights(pass);
  }

 private:
  /// Returns whether fused attention does a pass with these lengths, forward and backward alike.
  bool does_fused(std::span<const std::int32_t> lengths) const { return fused_ != nullptr && lengths.empty(); }
  void drop_fused(const std::string& refusal) {
    fused_.reset();
    warn_of_weights(spec_, refusal);
  }
  /// Returns the floats of scores that do not become weights in the same memory.
  std::size_t score_floats() const { return in_place() ? 0 : aligned_floats(weights_); }

  /// Computes the weights of all rows. `scores` may be the same memory, if both are float32.
  void compute_weights(Context& here, const TypedView<const float>& sequences, std::span<const std::int32_t> lengths,
                       float* scores, const TypedView<float>& weights) const {
    const auto input = parts(sequences.raw());
    multiply_heads(here, input.queries, input.keys.transpose(), spec_.steps, depth_,
                   square<void>(scores, ElementType::kFloat32));
    const Visible seen = visible(here, lengths);
    with_element(spec_.type, [&](auto element) {
      launch(here, "attention_weights", static_cast<unsigned>(rows_), threads(), normalize_kernel<decltype(element)>,
             seen, scale(), scores, weights);
    });
  }

  void backward_from_weights(const BackwardPass& pass) const {
    Context& here = context(device_);
    const auto input = parts(pass.inputs[0].raw());
    const auto gradient = parts(pass.input_gradients[0].raw());
    const TypedView<const float> weights(pass.saved.data(), weights_, spec_.type, device_);
    const TypedView<float> scratch(pass.scratch.data(), weights_, spec_.type, device_);
    const Operand output_gradient = output<const void>(pass.output_gradients[0].raw());
    multiply_heads(here, output_gradient, input.values.transpose(), spec_.steps, depth_,
                   square<void>(scratch.raw(), spec_.type));
    const Visible seen = visible(here, pass.lengths);
    with_element(spec_.type, [&](auto element) {
      launch(here, "attention_scores_gradient", static_cast<unsigned>(rows_), threads(),
             scores_gradient_kernel<decltype(element)>, seen, scale(), weights, scratch);
    });
    const Operand scores = square<const void>(scratch.raw(), spec_.type);
    multiply_heads(here, scores, input.keys, depth_, spec_.steps, gradient.queries);
    multiply_heads(here, scores.transpose(), input.queries, depth_, spec_.steps, gradient.keys);
    multiply_heads(here, square<const void>(weights.raw(), spec_.type).transpose(), output_gradient, depth_,
                   spec_.steps, gradient.values);
  }

  /// The parts of the input, where each step has the three one after the other, or of its gradient.
  template <class Void>
  struct Parts {
    HeadMatrices<Void> queries, keys, values;
  };
  template <class Void>
  Parts<Void> parts(Void* input) const {
    const HeadMatrices<Void> all{input, spec_.type, 3 * spec_.width, depth_, spec_.steps * 3 * spec_.width};
    const auto part = [&](std::int64_t which) {
      HeadMatrices<Void> own = all;
      own.data = all.at(which * spec_.width);
      return own;
    };
    return {part(0), part(1), part(2)};
  }
  template <class Void>
  HeadMatrices<Void> output(Void* data) const {
    return {data, spec_.type, spec_.width, depth_, spec_.steps * spec_.width};
  }
  template <class Void>
  HeadMatrices<Void> square(Void* data, ElementType type) const {
    return {data, type, spec_.steps, spec_.steps * spec_.steps, spec_.heads * spec_.steps * spec_.steps};
  }

  /// Returns whether scores become weights in the same memory.
  bool in_place() const { return spec_.type == ElementType::kFloat32; }
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
    const auto begin = [&](const auto& of, std::int64_t call) { return of.at(call * (by_head ? of.head : of.sample)); };
    const auto next = [&](const auto& of) { return by_head ? of.sample : of.head; };
    for (std::int64_t call = 0; call < calls; ++call)
      multiply(here, spec_.math,
               {.rows = spec_.steps,
                .columns = columns,
                .inner = inner,
                .a = {begin(a, call), a.row, a.transposed, next(a)},
                .b = {begin(b, call), b.row, b.transposed, next(b)},
                .type = a.type,
                .result = begin(result, call),
                .result_type = result.type,
                .stride = result.row,
                .next = next(result),
                .batch = by_head ? spec_.batch : spec_.heads});
  }

  Device device_;
  AttentionSpec spec_;
  std::int64_t depth_;
  std::size_t rows_, weights_;
  std::unique_ptr<FusedAttention> fused_;  // of bf16, where cuDNN has it
};

[[maybe_unused]] const bool registered =
    kernels::make_attention_plan.add(DeviceType::kCuda, construct_plan<CudaAttention>);

}  // namespace
}  // namespace dragonn::kernels::cuda
