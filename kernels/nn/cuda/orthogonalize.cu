// SPDX-License-Identifier: MIT
// Newton-Schulz iterations: three products of cuBLAS each, and a pass that makes the polynomial from the first two.
#include <algorithm>
#include <utility>

#include "kernels/cuda/runtime.h"
#include "kernels/nn/cuda/gemm.h"
#include "kernels/nn/orthogonalize.h"

namespace dragonn::kernels::cuda {
namespace {

__global__ void scale_kernel(const float* input, float scale, float* output, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) output[i] = scale * input[i];
}

/// Replaces square = A A by 3.4445 I - 4.7750 A + 2.0315 A A. Every `side + 1`-th element is on the diagonal.
__global__ void polynomial_kernel(const float* gram, std::size_t side, float* square, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride())
    square[i] = kNewtonSchulz3 * gram[i] + kNewtonSchulz5 * square[i] + (i % (side + 1) == 0 ? kNewtonSchulz1 : 0.0f);
}

void orthogonalize(const OrthogonalizeSpec& spec, float scale, View<float> matrix, View<float> scratch) {
  Context& here = context(matrix.device());
  const std::size_t side = spec.smaller();
  const auto extent = static_cast<std::int64_t>(side);
  const bool is_tall = spec.rows > spec.columns;
  float* const gram = scratch.data() + spec.size();
  float* const polynomial = gram + side * side;
  // The matrix and the scratch take turns, and the last product writes the matrix.
  float *x = matrix.data(), *next = scratch.data();
  if (spec.steps % 2 != 0) std::swap(x, next);
  launch_over(here, "orthogonalize", spec.size(), scale_kernel, matrix.data(), scale, x, spec.size());
  const auto product = [&](const Factor& a, const Factor& b, std::int64_t rows, std::int64_t columns,
                           std::int64_t inner, float* result) {
    multiply(here, DeviceMath::kFloat32,
             {.rows = rows, .columns = columns, .inner = inner, .a = a, .b = b, .result = result, .stride = columns});
  };
  for (int step = 0; step < spec.steps; ++step) {
    const Factor own{x, spec.columns}, transposed{x, spec.columns, true}, factor{polynomial, extent};
    product(is_tall ? transposed : own, is_tall ? own : transposed, extent, extent, std::max(spec.rows, spec.columns),
            gram);
    product({gram, extent}, {gram, extent}, extent, extent, extent, polynomial);
    launch_over(here, "orthogonalize", side * side, polynomial_kernel, gram, side, polynomial, side * side);
    product(is_tall ? own : factor, is_tall ? factor : own, spec.rows, spec.columns, extent, next);
    std::swap(x, next);
  }
}

[[maybe_unused]] const bool registered = kernels::orthogonalize.add(DeviceType::kCuda, orthogonalize);

}  // namespace
}  // namespace dragonn::kernels::cuda
