// SPDX-License-Identifier: MIT
#include "kernels/nn/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "kernels/nn/loss_rows.h"

namespace dragonn::kernels {
namespace {

/// A matrix whose rows begin `stride` floats apart.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::int64_t stride = 0;

  Matrix rows_from(std::int64_t row) const { return {data + row * stride, stride}; }
};
using Factor = Matrix<const float>;

/// A product: result [rows, columns] = scale * a b + keep * result, where a is [rows, inner].
struct Product {
  std::int64_t rows = 0, columns = 0, inner = 0;
  float scale = 1, keep = 0;
};

/// Attention by blocks of rows of the weights: scratch memory holds one, which backward computes again. Threads share
/// out the samples' heads; none depends on how many there are. Source: Rabe and Staats, arXiv:2112.05682.
class BlockedAttention final : public Plan {
 public:
  BlockedAttention(const Device&, const AttentionSpec& spec)
      : spec_(spec),
        depth_(spec.width / spec.heads),
        threads_(static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), spec.batch * spec.heads))) {}

  PlanMemory memory() const override {
    const std::size_t blocks = static_cast<std::size_t>(threads_) * block_floats();
    return {0, blocks, spec_.training ? 2 * blocks : 0};
  }

  void forward(const ForwardPass& pass) override {
    const float* input = pass.inputs[0].data();
    float* output = pass.output.data();
    for_each_head(pass.lengths, [&](const Head& head) {
      const Matrix<float> weights{pass.scratch.data() + head.slot * block_floats(), spec_.steps};
      const Matrix<float> result{output + head.output, spec_.width};
      for_each_block(head, [&](const Block& block) {
        compute_weights(head, block, input, weights);
        multiply('N', 'N', {block.rows, depth_, block.keys}, as_factor(weights), values(input, head),
                 result.rows_from(block.begin));
      });
    });
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    const float* input = pass.inputs[0].data();
    for_each_head(pass.lengths, [&](const Head& head) {
      float* scratch = pass.scratch.data() + 2 * head.slot * block_floats();
      const Matrix<float> weights{scratch, spec_.steps}, scores{scratch + block_floats(), spec_.steps};
      const Factor output_gradient{pass.output_gradients[0].data() + head.output, spec_.width};
      float* gradient = pass.input_gradients[0].data() + head.input;
      const Matrix<float> queries_gradient{gradient, 3 * spec_.width};
      const Matrix<float> keys_gradient{gradient + spec_.width, 3 * spec_.width};
      const Matrix<float> values_gradient{gradient + 2 * spec_.width, 3 * spec_.width};
      clear(keys_gradient);
      clear(values_gradient);
      for_each_block(head, [&](const Block& block) {
        compute_weights(head, block, input, weights);
        const Factor own_gradient = output_gradient.rows_from(block.begin);
        multiply('N', 'T', {block.rows, block.keys, depth_}, own_gradient, values(input, head), scores);
        for (std::int64_t row = 0; row < block.rows; ++row) {
          const std::int64_t visible = visible_of(head, block.begin + row);
          float* slope = scores.rows_from(row).data;
          detail::softmax_backward_row(weights.rows_from(row).data, static_cast<std::size_t>(visible), scale(), slope);
          std::fill(slope + visible, slope + block.keys, 0.0f);
        }
        const Product sums{block.keys, depth_, block.rows, 1, 1};
        multiply('T', 'N', sums, as_factor(weights), own_gradient, values_gradient);
        multiply('T', 'N', sums, as_factor(scores), queries(input, head).rows_from(block.begin), keys_gradient);
        multiply('N', 'N', {block.rows, depth_, block.keys}, as_factor(scores), keys(input, head),
                 queries_gradient.rows_from(block.begin));
      });
    });
  }

 private:
  /// The floats of a block: two stay in a processor's own cache. The library copies keys and values for each block.
  static constexpr std::int64_t kBlockFloats = std::int64_t{1} << 17;
  static constexpr std::int64_t kFewestRows = 64;

  /// A head of a sample.
  struct Head {
    std::size_t slot = 0;                ///< of scratch memory
    std::int64_t length = 0;             ///< valid steps
    std::int64_t input = 0, output = 0;  ///< offsets of its first query and its first result
  };
  /// Rows of the weights, and the keys that some of them see.
  struct Block {
    std::int64_t begin = 0, rows = 0, keys = 0;
  };

  std::int64_t block_rows() const { return std::min(spec_.steps, std::max(kFewestRows, kBlockFloats / spec_.steps)); }
  std::size_t block_floats() const { return aligned_floats(static_cast<std::size_t>(block_rows() * spec_.steps)); }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(depth_)); }
  Factor queries(const float* input, const Head& head) const { return {input + head.input, 3 * spec_.width}; }
  Factor keys(const float* input, const Head& head) const {
    return {input + head.input + spec_.width, 3 * spec_.width};
  }
  Factor values(const float* input, const Head& head) const {
    return {input + head.input + 2 * spec_.width, 3 * spec_.width};
  }
  static Factor as_factor(const Matrix<float>& matrix) { return {matrix.data, matrix.stride}; }

  /// Returns how many steps, from the first one on, a step sees.
  std::int64_t visible_of(const Head& head, std::int64_t step) const {
    return step >= head.length ? 0 : spec_.causal ? step + 1 : head.length;
  }

  void multiply(char a_form, char b_form, const Product& product, const Factor& a, const Factor& b,
                const Matrix<float>& result) {
    // Of no factors the library leaves the result as it is.
    if (product.inner == 0) {
      for (std::int64_t row = 0; row < product.rows; ++row)
        std::fill_n(result.rows_from(row).data, product.columns, 0.0f);
      return;
    }
    if (product.rows == 0 || product.columns == 0) return;
    const dnnl_status_t status =
        dnnl_sgemm(a_form, b_form, product.rows, product.columns, product.inner, product.scale, a.data, a.stride,
                   b.data, b.stride, product.keep, result.data, result.stride);
    if (status != dnnl_success) failed_ = true;
  }

  void clear(const Matrix<float>& matrix) const {
    for (std::int64_t step = 0; step < spec_.steps; ++step) std::fill_n(matrix.rows_from(step).data, depth_, 0.0f);
  }

  template <class Body>
  void for_each_head(std::span<const std::int32_t> lengths, const Body& body) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(std::min(threads_, omp_get_max_threads()))
    for (std::int64_t item = 0; item < spec_.batch * spec_.heads; ++item) {
      const std::int64_t sample = item / spec_.heads, first = item % spec_.heads * depth_;
      body(Head{static_cast<std::size_t>(omp_get_thread_num()),
                lengths.empty() ? spec_.steps : lengths[static_cast<std::size_t>(sample)],
                sample * spec_.steps * 3 * spec_.width + first, sample * spec_.steps * spec_.width + first});
    }
    DRAGONN_CHECK(!failed_, "oneDNN's sgemm failed");
  }

  template <class Body>
  void for_each_block(const Head& head, const Body& body) const {
    for (std::int64_t begin = 0; begin < spec_.steps; begin += block_rows()) {
      const std::int64_t rows = std::min(block_rows(), spec_.steps - begin);
      body(Block{begin, rows, spec_.causal ? std::min(head.length, begin + rows) : head.length});
    }
  }

  /// Computes a block of the weights: the softmax over the visible steps, zeros for the other keys.
  void compute_weights(const Head& head, const Block& block, const float* input, const Matrix<float>& weights) {
    multiply('N', 'T', {block.rows, block.keys, depth_, scale()}, queries(input, head).rows_from(block.begin),
             keys(input, head), weights);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::int64_t visible = visible_of(head, block.begin + row);
      float* own = weights.rows_from(row).data;
      std::fill(own + visible, own + block.keys, 0.0f);
      if (visible > 0 && !detail::softmax_row(own, static_cast<std::size_t>(visible)))
        std::fill_n(own, visible, std::numeric_limits<float>::quiet_NaN());
    }
  }

  AttentionSpec spec_;
  std::int64_t depth_;  // elements of a head
  int threads_;
  std::atomic<bool> failed_ = false;  // errors must not leave a thread
};

}  // namespace

constinit decltype(make_attention_plan) make_attention_plan("attention",
                                                            construct_plan<BlockedAttention, Plan, AttentionSpec>,
                                                            has_math<AttentionSpec>);

}  // namespace dragonn::kernels
