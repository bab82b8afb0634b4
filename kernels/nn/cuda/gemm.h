// SPDX-License-Identifier: MIT
/// Products of row-major matrices of float32 or bf16, by cuBLAS. Sums are float32.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels::cuda {

/// A factor whose rows begin `stride` elements apart; the matrices of a batch begin `next` elements apart.
struct Factor {
  const void* data = nullptr;
  std::int64_t stride = 1;
  bool transposed = false;  ///< the product takes the transpose of the stored matrix
  std::int64_t next = 0;
};

/// A product: result [rows, columns] = a [rows, inner] * b [inner, columns] + keep * result, for every matrix of the
/// batch.
struct Product {
  std::int64_t rows = 1, columns = 1, inner = 1;
  Factor a, b;
  ElementType type = ElementType::kFloat32;  ///< of both factors
  void* result = nullptr;
  ElementType result_type = ElementType::kFloat32;  ///< bf16 only of factors of bf16
  std::int64_t stride = 1;
  std::int64_t next = 0;
  std::int64_t batch = 1;
  float keep = 0;
};

/// Multiplies on the context's stream. `math` is for factors of float32: those of bf16 are multiplied exactly. It gives
/// the same bits for the same shapes on one type of GPU: cuBLAS uses no atomics, and a handle has one stream. @throws
/// DeviceError if cuBLAS refuses.
void multiply(Context& here, DeviceMath math, const Product& product);

}  // namespace dragonn::kernels::cuda
