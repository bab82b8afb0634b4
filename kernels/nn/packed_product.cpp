// SPDX-License-Identifier: MIT
#include "kernels/nn/packed_product.h"

#include <algorithm>

#include "kernels/nn/onednn.h"

namespace dragonn::kernels {
namespace {

using namespace dnnl;

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
    // Products with large plain weights are faster, and packing these by their other axis takes as long as many
    // products.
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
  onednn::Execution product_;
  onednn::Execution packing_;
  std::size_t packed_ = 0;
};

std::unique_ptr<PackedProduct> make_cpu(const Device&, const PackedProductSpec& spec) {
  return onednn::make_plan<OneDnnProduct>(
      fmt::format("product of [{}, {}] with {} outputs", spec.rows, spec.inner, spec.outputs), spec);
}

}  // namespace

constinit decltype(make_packed_product) make_packed_product("packed_product", make_cpu);

}  // namespace dragonn::kernels
