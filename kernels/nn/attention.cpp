// SPDX-License-Identifier: MIT
#include "kernels/nn/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/nn/loss_rows.h"
#include "kernels/nn/onednn.h"

namespace dragonn::kernels {
namespace {

using namespace dnnl;

/// A matrix product for every sample and head, on operands with any strides.
class HeadProducts {
 public:
  HeadProducts() = default;
  HeadProducts(const memory::desc& a, const memory::desc& b, const memory::desc& result) {
    const matmul::primitive_desc product({a, b, result}, onednn::user_scratchpad(), onednn::engine());
    execution_ = {product, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD}};
  }
  std::size_t scratch() const { return execution_.scratch(); }
  void run(const float* a, const float* b, float* result, float* scratch) { execution_.run({a, b, result, scratch}); }

 private:
  onednn::Execution execution_;
};

class CpuAttention final : public AttentionPlan {
 public:
  explicit CpuAttention(const AttentionSpec& spec)
      : spec_(spec),
        steps_(static_cast<std::size_t>(spec.steps)),
        width_(static_cast<std::size_t>(spec.width)),
        weights_(static_cast<std::size_t>(spec.batch * spec.heads * spec.steps * spec.steps)) {
    const std::int64_t steps = spec.steps, depth = spec.width / spec.heads;
    const auto describe = [&](std::int64_t rows, std::int64_t columns, const memory::dims& strides) {
      return memory::desc({spec.batch, spec.heads, rows, columns}, memory::data_type::f32, strides);
    };
    // A part of the input (3 widths a step) or the output (1), as [steps, depth] or transposed.
    const auto part = [&](std::int64_t widths) {
      return describe(steps, depth, {steps * widths * spec.width, depth, widths * spec.width, 1});
    };
    const auto part_transposed = [&](std::int64_t widths) {
      return describe(depth, steps, {steps * widths * spec.width, depth, 1, widths * spec.width});
    };
    const memory::desc square = describe(steps, steps, {spec.heads * steps * steps, steps * steps, steps, 1});
    const memory::desc square_transposed =
        describe(steps, steps, {spec.heads * steps * steps, steps * steps, 1, steps});
    scores_ = HeadProducts(part(3), part_transposed(3), square);
    mix_ = HeadProducts(square, part(3), part(1));
    if (!spec.training) return;
    weights_gradient_ = HeadProducts(part(1), part_transposed(3), square);
    values_gradient_ = HeadProducts(square_transposed, part(1), part(3));
    queries_gradient_ = HeadProducts(square, part(3), part(3));
    keys_gradient_ = HeadProducts(square_transposed, part(3), part(3));
  }

  PlanMemory memory() const override {
    return {aligned_floats(weights_), std::max(scores_.scratch(), mix_.scratch()),
            aligned_floats(weights_) + std::max({weights_gradient_.scratch(), values_gradient_.scratch(),
                                                 queries_gradient_.scratch(), keys_gradient_.scratch()})};
  }

  void forward(const AttentionForward& arguments) override {
    const float* queries = arguments.input.data();
    float* weights = arguments.saved.data();
    scores_.run(queries, queries + width_, weights, arguments.scratch.data());
    for_each_row(arguments.lengths,
                 [&](std::size_t row, std::size_t visible) { normalize(weights + row * steps_, visible); });
    mix_.run(weights, queries + 2 * width_, arguments.output.data(), arguments.scratch.data());
  }

  void backward(const AttentionBackward& arguments) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    const float* queries = arguments.input.data();
    const float* weights = arguments.saved.data();
    const float* output_gradient = arguments.output_gradient.data();
    float* gradient = arguments.input_gradient.data();
    float* scores = arguments.scratch.data();
    float* scratch = scores + aligned_floats(weights_);
    weights_gradient_.run(output_gradient, queries + 2 * width_, scores, scratch);
    for_each_row(arguments.lengths, [&](std::size_t row, std::size_t visible) {
      scores_gradient(weights + row * steps_, visible, scores + row * steps_);
    });
    queries_gradient_.run(scores, queries + width_, gradient, scratch);
    keys_gradient_.run(scores, queries, gradient + width_, scratch);
    values_gradient_.run(weights, output_gradient, gradient + 2 * width_, scratch);
  }

 private:
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(spec_.width / spec_.heads)); }

  /// Calls body(row of the weights, number of steps that it sees) for every row.
  template <class Body>
  void for_each_row(std::span<const std::int32_t> lengths, const Body& body) const {
    const std::size_t rows_of_sample = static_cast<std::size_t>(spec_.heads) * steps_;
    detail::for_each_row(weights_ / steps_, steps_, [&](std::size_t, std::size_t row) {
      const std::size_t length = lengths.empty() ? steps_ : static_cast<std::size_t>(lengths[row / rows_of_sample]);
      const std::size_t step = row % steps_;
      body(row, step >= length ? 0 : spec_.causal ? step + 1 : length);
    });
  }

  /// Turns scores into weights: their softmax over the visible steps, zeros for the others.
  void normalize(float* row, std::size_t visible) const {
    std::fill(row + visible, row + steps_, 0.0f);
    if (visible == 0) return;
    detail::scale_row(row, visible, scale(), 0);
    const detail::RowSums sums = detail::softmax_row_sums(row, visible, detail::largest_in_row(row, visible), row);
    if (std::isfinite(sums.distances))
      detail::scale_row(row, visible, static_cast<float>(1 / sums.exponentials), 0);
    else
      std::fill_n(row, visible, std::numeric_limits<float>::quiet_NaN());
  }

  /// Turns the weights' gradient into the scores'.
  void scores_gradient(const float* weights, std::size_t visible, float* gradient) const {
    detail::softmax_backward_row(weights, visible, scale(), gradient);
    std::fill(gradient + visible, gradient + steps_, 0.0f);
  }

  AttentionSpec spec_;
  std::size_t steps_, width_, weights_;
  HeadProducts scores_, mix_;
  HeadProducts weights_gradient_, values_gradient_, queries_gradient_, keys_gradient_;
};

std::unique_ptr<AttentionPlan> make_cpu(const Device&, const AttentionSpec& spec) {
  return onednn::make_plan<CpuAttention>(
      fmt::format("attention of [{}, {}, {}] with {} heads", spec.batch, spec.steps, spec.width, spec.heads), spec);
}

}  // namespace

constinit decltype(make_attention_plan) make_attention_plan("attention", make_cpu);

}  // namespace dragonn::kernels
