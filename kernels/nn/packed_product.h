// SPDX-License-Identifier: MIT
/// PackedProduct: a matrix product that runs many times with the same weights, as a recurrent layer does in every step.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device.h"
#include "core/view.h"
#include "kernels/nn/plan.h"

namespace dragonn::kernels {

/// The shape of output [rows, outputs] = input [rows, inner] * weights. All float32.
struct PackedProductSpec {
  std::int64_t rows = 1, inner = 1, outputs = 1;
  /// Weights are [outputs, inner], as a linear layer's, and multiply transposed; otherwise they are [inner, outputs].
  bool transposed = true;
};

/// A product with packed weights. Packing costs a copy of the weights; every product after it reads them in the order
/// in which it needs them.
class PackedProduct {
 public:
  virtual ~PackedProduct() = default;
  /// Returns the floats of the packed weights (0 if the plain ones do), and below those of the scratch memory of both
  /// calls.
  virtual std::size_t packed_floats() const = 0;
  virtual std::size_t scratch_floats() const = 0;
  /// Packs the weights. Returns the argument for run(): `packed`, or `weights` themselves.
  virtual View<const float> pack(View<const float> weights, View<float> packed, View<float> scratch) = 0;
  virtual void run(View<const float> input, View<const float> weights, View<float> output, View<float> scratch) = 0;
};

/// Makes a product. @throws Error if the device's library refuses, DeviceError if there is no row for the device.
extern PlanFactory<PackedProduct, PackedProductSpec> make_packed_product;

}  // namespace dragonn::kernels
