// SPDX-License-Identifier: MIT
#include "kernels/nn/matrix_product.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "core/error.h"
#include "kernels/nn/onednn.h"
#include "kernels/pieces.h"

namespace dragonn::kernels::detail {
namespace {

/// Returns how many columns of c a thread computes by a product of its own, a multiple of a tile's; all, if the library
/// shares out the product. With AVX-512 the library's way is slow where the second factor is transposed and the first
/// has few rows: two threads reach 0.3 to 0.9 times the rate of two products of 32 to 512 rows.
std::int64_t columns_of_thread(const Matrix& a, const Matrix& b, std::int64_t columns) {
  constexpr std::int64_t kFewestRows = 32, kFewRows = 512, kFewestColumns = 128, kTile = 48;
  const int threads = omp_in_parallel() != 0 ? 1 : omp_get_max_threads();
  if (threads == 1 || a.transposed || !b.transposed || a.rows < kFewestRows || a.rows > kFewRows ||
      columns < threads * kFewestColumns || !onednn::uses_avx512())
    return columns;
  return ((columns + threads - 1) / threads + kTile - 1) / kTile * kTile;
}

}  // namespace

void multiply(const Matrix& a, const Matrix& b, float keep, float* c) {
  const std::int64_t inner = a.transposed ? a.rows : a.columns, columns = b.transposed ? b.rows : b.columns;
  const std::int64_t share = columns_of_thread(a, b, columns);
  std::atomic<dnnl_status_t> failure = dnnl_success;
  const auto run = [&](std::int64_t begin) {
    const float* factor = b.data + begin * b.columns;  // columns are shared out if b is transposed: they are its rows
    const dnnl_status_t status =
        dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', a.outer(), std::min(share, columns - begin),
                   inner, 1.0f, a.data, a.columns, factor, b.columns, keep, c + begin, columns);
    if (status != dnnl_success) failure = status;
  };
  if (share == columns) {
    run(0);
  } else {
#pragma omp parallel for schedule(static, 1)
    for (std::int64_t begin = 0; begin < columns; begin += share) run(begin);
  }
  DRAGONN_CHECK(failure == dnnl_success, "oneDNN's sgemm failed with status {}", static_cast<int>(failure.load()));
}

void sum_columns(const Matrix& matrix, float* sums, bool adds) {
  constexpr std::size_t kBlock = 16;
  const Chunks blocks(static_cast<std::size_t>(matrix.columns), kBlock, kBlock);
  for_each_chunk(blocks, [&](std::size_t chunk) {
    for (std::size_t begin = blocks.begin(chunk); begin < blocks.end(chunk); begin += kBlock) {
      const std::size_t count = std::min(kBlock, blocks.end(chunk) - begin);
      std::array<double, kBlock> total{};
      for (std::int64_t row = 0; row < matrix.rows; ++row)
        for (std::size_t i = 0; i < count; ++i)
          total[i] += matrix.data[static_cast<std::size_t>(row * matrix.columns) + begin + i];
      for (std::size_t i = 0; i < count; ++i)
        sums[begin + i] = adds ? sums[begin + i] + static_cast<float>(total[i]) : static_cast<float>(total[i]);
    }
  });
}

void fill_rows(const float* row, std::int64_t rows, std::int64_t columns, float* matrix) {
  if (row == nullptr) {
    std::fill_n(matrix, rows * columns, 0.0f);
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i) std::copy_n(row, columns, matrix + i * columns);
}

}  // namespace dragonn::kernels::detail

namespace dragonn::kernels {
namespace {

using namespace dnnl;
using detail::Matrix;
using detail::multiply;
using detail::transpose;

/// A linear map by products with plain weights. The layouts that oneDNN would choose are slower for almost every shape:
/// the input's gradient takes up to twice as long, and weights and their gradient are copied in every step.
class Linear final : public Plan {
 public:
  Linear(const Device&, const LinearSpec& spec) : spec_(spec) {}

  void forward(const ForwardPass& pass) override {
    float* output = pass.output.data();
    if (spec_.bias) detail::fill_rows(bias_of(pass.parameters).data(), spec_.batch, spec_.outputs, output);
    multiply(input_of(pass), transpose(weights_of(pass)), spec_.bias ? 1 : 0, output);
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    const Matrix gradient{pass.output_gradients[0].data(), spec_.batch, spec_.outputs};
    const bool adds = pass.adds_parameter_gradients;
    if (spec_.bias) detail::sum_columns(gradient, bias_of(pass.parameter_gradients).data(), adds);
    multiply(transpose(gradient), input_of(pass), adds ? 1 : 0, pass.parameter_gradients[0].data());
    if (spec_.input_gradient) multiply(gradient, weights_of(pass), 0, pass.input_gradients[0].data());
  }

 private:
  Matrix input_of(const auto& pass) const { return {pass.inputs[0].data(), spec_.batch, spec_.inputs}; }
  Matrix weights_of(const auto& pass) const { return {pass.parameters[0].data(), spec_.outputs, spec_.inputs}; }

  LinearSpec spec_;
};

/// The floats of weights from which on these do not stay in a processor's own cache from one product to the next.
constexpr std::int64_t kLargeWeights = 1 << 20;

class OneDnnProduct final : public PackedProduct {
 public:
  explicit OneDnnProduct(const PackedProductSpec& spec) {
    using tag = memory::format_tag;
    const auto float32 = memory::data_type::f32;
    const memory::desc input({spec.rows, spec.inner}, float32, tag::nc);
    const memory::desc output({spec.rows, spec.outputs}, float32, tag::nc);
    const memory::desc any({spec.outputs, spec.inner}, float32, tag::any);
    const memory::desc plain({spec.outputs, spec.inner}, float32, spec.transposed ? tag::oi : tag::io);
    // Products with large plain weights are faster; packing them by their other axis takes as long as many products.
    const bool pack = spec.transposed || spec.inner * spec.outputs < kLargeWeights;
    const inner_product_forward::primitive_desc product(
        {prop_kind::forward_inference, input, pack ? any : plain, output}, onednn::user_scratchpad(), onednn::engine());
    const memory::desc weights = product.weights_desc();
    product_ = {product, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD}};
    if (weights == plain) return;
    packing_ = onednn::reordering(plain, weights);
    packed_ = onednn::floats(weights);
  }

  std::size_t packed_floats() const override { return packed_; }
  std::size_t scratch_floats() const override { return std::max(product_.scratch(), packing_.scratch()); }
  View<const float> pack(View<const float> weights, View<float> packed, View<float> scratch) override {
    if (!packing_) return weights;
    packing_.run({weights.data(), packed.data(), scratch.data()});
    return packed;
  }
  void run(View<const float> input, View<const float> weights, View<float> output, View<float> scratch) override {
    product_.run({input.data(), weights.data(), output.data(), scratch.data()});
  }

 private:
  onednn::Execution product_, packing_;
  std::size_t packed_ = 0;
};

std::unique_ptr<PackedProduct> make_cpu(const Device&, const PackedProductSpec& spec) {
  return onednn::make_plan<OneDnnProduct>(
      fmt::format("product of [{}, {}] with {} outputs", spec.rows, spec.inner, spec.outputs), spec);
}

}  // namespace

constinit decltype(make_linear_plan) make_linear_plan("linear", construct_plan<Linear, Plan, LinearSpec>,
                                                      has_math<LinearSpec>);
constinit decltype(make_packed_product) make_packed_product("packed_product", make_cpu, has_math<PackedProductSpec>);

}  // namespace dragonn::kernels
