// SPDX-License-Identifier: MIT
#include "kernels/nn/orthogonalize.h"

#include <utility>

#include "core/error.h"
#include "kernels/nn/matrix_product.h"

namespace dragonn::kernels {
namespace {

using detail::Matrix;
using detail::multiply;
using detail::transpose;

void orthogonalize_cpu(const OrthogonalizeSpec& spec, float scale, View<float> matrix, View<float> scratch) {
  const std::size_t side = spec.smaller();
  const bool is_tall = spec.rows > spec.columns;
  float* const gram = scratch.data() + spec.size();
  float* const polynomial = gram + side * side;
  // The matrix and the scratch take turns, and the last product writes the matrix.
  float *x = matrix.data(), *next = scratch.data();
  if (spec.steps % 2 != 0) std::swap(x, next);
  for (std::size_t i = 0; i < spec.size(); ++i) x[i] = scale * matrix.data()[i];
  for (int step = 0; step < spec.steps; ++step) {
    const Matrix own{x, spec.rows, spec.columns};
    const auto extent = static_cast<std::int64_t>(side);
    const Matrix square{gram, extent, extent}, factor{polynomial, extent, extent};
    multiply(is_tall ? transpose(own) : own, is_tall ? own : transpose(own), 0, gram);
    multiply(square, square, 0, polynomial);
    for (std::size_t i = 0; i < side * side; ++i)
      polynomial[i] = kNewtonSchulz3 * gram[i] + kNewtonSchulz5 * polynomial[i];
    for (std::size_t i = 0; i < side; ++i) polynomial[i * (side + 1)] += kNewtonSchulz1;
    multiply(is_tall ? own : factor, is_tall ? factor : own, 0, next);
    std::swap(x, next);
  }
}

bool fits(const OrthogonalizeSpec& spec, float, View<float> matrix, View<float> scratch) {
  if (matrix.size() != spec.size() || scratch.size() < spec.scratch_floats())
    throw ShapeError(fmt::format("orthogonalize: {} elements and {} of scratch for a matrix [{}, {}], which takes {}",
                                 matrix.size(), scratch.size(), spec.rows, spec.columns, spec.scratch_floats()));
  return !matrix.empty();
}

}  // namespace

constinit decltype(orthogonalize) orthogonalize("orthogonalize", orthogonalize_cpu, fits);

}  // namespace dragonn::kernels
