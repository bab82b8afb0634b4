// SPDX-License-Identifier: MIT
#include "kernels/nn/cuda/gemm.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/matrix_product.h"

namespace dragonn::kernels::cuda {
namespace {

/// Multiplies by plain weights, which cuBLAS takes, or in bf16 by a rounded copy: a recurrent step is as fast as it
/// reads its weights. The input, which is small, is rounded in every product.
class CudaProduct final : public PackedProduct {
 public:
  CudaProduct(const Device& device, const PackedProductSpec& spec)
      : device_(device), math_(context(device).math()), spec_(spec) {}

  std::size_t packed_floats() const override { return rounds() ? floats_for_bytes(weights() * sizeof(Bf16)) : 0; }
  std::size_t scratch_floats() const override { return rounds() ? floats_for_bytes(inputs() * sizeof(Bf16)) : 0; }
  View<const float> pack(View<const float> weights, View<float> packed, View<float>) override {
    if (!rounds()) return weights;
    convert(weights, rounded(packed, this->weights()));
    return packed;
  }
  void run(View<const float> input, View<const float> weights, View<float> output, View<float> scratch) override {
    if (rounds()) convert(input, rounded(scratch, inputs()));
    multiply(context(device_), math_,
             {.rows = spec_.rows,
              .columns = spec_.outputs,
              .inner = spec_.inner,
              .a = {rounds() ? scratch.data() : input.data(), spec_.inner},
              .b = {weights.data(), spec_.transposed ? spec_.inner : spec_.outputs, spec_.transposed},
              .type = rounds() ? ElementType::kBf16 : ElementType::kFloat32,
              .result = output.data(),
              .stride = spec_.outputs});
  }

 private:
  bool rounds() const { return math_ == DeviceMath::kBf16; }
  std::size_t weights() const { return static_cast<std::size_t>(spec_.inner * spec_.outputs); }
  std::size_t inputs() const { return static_cast<std::size_t>(spec_.rows * spec_.inner); }
  TypedView<float> rounded(View<float> memory, std::size_t size) const {
    return {memory.data(), size, ElementType::kBf16, device_};
  }

  Device device_;
  DeviceMath math_;
  PackedProductSpec spec_;
};

[[maybe_unused]] const bool registered =
    kernels::make_packed_product.add(DeviceType::kCuda, construct_plan<CudaProduct>);

}  // namespace
}  // namespace dragonn::kernels::cuda
