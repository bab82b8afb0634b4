// SPDX-License-Identifier: MIT
/// Matrix products: linear maps; PackedProduct, which runs many times with the same weights; and products of whole
/// matrices on the CPU, for .cpp files of this folder only.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device.h"
#include "core/view.h"
#include "kernels/nn/plan.h"

namespace dragonn::kernels::detail {

/// A factor: a matrix without gaps between its rows.
struct Matrix {
  const float* data;
  std::int64_t rows, columns;
  bool transposed = false;  ///< multiplies as its transpose

  std::int64_t outer() const { return transposed ? columns : rows; }
};
inline Matrix transpose(Matrix matrix) {
  matrix.transposed = !matrix.transposed;
  return matrix;
}

/// Multiplies: c = keep * c + a * b. @throws Error if the library fails.
void multiply(const Matrix& a, const Matrix& b, float keep, float* c);
/// Sums the columns of a matrix, in double: sums [columns]. @param adds adds them to what is there.
void sum_columns(const Matrix& matrix, float* sums, bool adds = false);
/// Sets each of `rows` rows to `row`; to zeros if it is null.
void fill_rows(const float* row, std::int64_t rows, std::int64_t columns, float* matrix);

}  // namespace dragonn::kernels::detail

namespace dragonn::kernels {

/// The shape of a linear map, output = input * weights^T + bias. Input [batch, inputs], weights [outputs, inputs], bias
/// [outputs], output [batch, outputs].
struct LinearSpec {
  std::int64_t batch = 1, inputs = 1, outputs = 1;
  bool bias = true;
  bool training = true;                      ///< backward will be called
  bool input_gradient = true;                ///< backward computes the input's gradient
  ElementType type = ElementType::kFloat32;  ///< of input and output; weights and bias are float32
  DeviceMath math = DeviceMath::kFloat32;    ///< of products of float32; those of bf16 are exact
};

/// Makes a plan. Its backward can add to the parameters' gradients.
extern PlanFactory<LinearSpec> make_linear_plan;

/// The shape of output [rows, outputs] = input [rows, inner] * weights. All float32.
struct PackedProductSpec {
  std::int64_t rows = 1, inner = 1, outputs = 1;
  /// Weights are [outputs, inner], as a linear layer's, and multiply transposed; otherwise they are [inner, outputs].
  bool transposed = true;
  DeviceMath math = DeviceMath::kFloat32;
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

/// Makes a product.
extern PlanFactory<PackedProductSpec, PackedProduct> make_packed_product;

}  // namespace dragonn::kernels
