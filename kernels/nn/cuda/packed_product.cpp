// SPDX-License-Identifier: MIT
#include "kernels/nn/packed_product.h"

#include "kernels/nn/cuda/gemm.h"

namespace dragonn::kernels::cuda {
namespace {

/// Multiplies by plain weights, which cuBLAS takes: nothing is packed.
class CudaProduct final : public PackedProduct {
 public:
  CudaProduct(const Device& device, const PackedProductSpec& spec)
      : device_(device), math_(context(device).math()), spec_(spec) {}

  std::size_t packed_floats() const override { return 0; }
  std::size_t scratch_floats() const override { return 0; }
  View<const float> pack(View<const float> weights, View<float>, View<float>) override { return weights; }
  void run(View<const float> input, View<const float> weights, View<float> output, View<float>) override {
    multiply(context(device_), math_,
             {.rows = spec_.rows,
              .columns = spec_.outputs,
              .inner = spec_.inner,
              .a = {input.data(), spec_.inner},
              .b = {weights.data(), spec_.transposed ? spec_.inner : spec_.outputs, spec_.transposed},
              .result = output.data(),
              .stride = spec_.outputs});
  }

 private:
  Device device_;
  DeviceMath math_;
  PackedProductSpec spec_;
};

[[maybe_unused]] const bool registered =
    kernels::make_packed_product.add(DeviceType::kCuda, construct_plan<CudaProduct>);

}  // namespace
}  // namespace dragonn::kernels::cuda
