// SPDX-License-Identifier: MIT
/// Matrix products on a GPU: of row-major matrices of float32 or bf16, by cuBLAS; and LtProduct, of bf16 with what a
/// linear layer does beside them, by the epilogues of cuBLASLt. Sums are float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cublasLt.h>
#include <optional>

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

/// Owns a descriptor of cuBLASLt.
template <class T, cublasStatus_t (*kDestroy)(T)>
class LtDescriptor {
 public:
  LtDescriptor() = default;
  ~LtDescriptor() {
    if (value_ != nullptr) kDestroy(value_);
  }
  LtDescriptor(const LtDescriptor&) = delete;
  LtDescriptor& operator=(const LtDescriptor&) = delete;
  T get() const { return value_; }
  T* place() { return &value_; }

 private:
  T value_ = nullptr;
};

/// A product result = left * right as cuBLAS sees it: column-major and contiguous. The factors are bf16; each is stored
/// as `rows` x `columns` here, and may be transposed before it is multiplied.
struct LtSpec {
  struct Factor {
    std::int64_t rows, columns;
    bool transposed;
  };
  Factor left, right;
  std::int64_t rows, columns;  ///< of the result
  cudaDataType result_type;    ///< of the result and the vector
  cublasLtEpilogue_t epilogue;
};

// Activations stay layers of their own. The epilogues with GELU compute its approximation by tanh, another function
// than the GELU by erf of our layers; those with ReLU need a layer that is a linear map and a ReLU at once, which no
// graph has.

/// The output of a linear layer, bf16 [batch, outputs] = input [batch, inputs] * weights [outputs, inputs]^T + the
/// vector [outputs]. The factors are the weights and the input.
LtSpec output_product(std::int64_t batch, std::int64_t inputs, std::int64_t outputs);
/// The gradients of its weights, float32 [outputs, inputs] = gradient [batch, outputs]^T * input, and of its bias, the
/// vector, which are the sums of the gradient's columns. The factors are the input and the gradient.
LtSpec weights_gradient_product(std::int64_t batch, std::int64_t inputs, std::int64_t outputs);

/// A product of one shape. All matrices begin at multiples of 16 bytes; sums are float32, and results are rounded once.
/// The algorithm is the first of cuBLAS's heuristics, so equal shapes have equal bits on one type of GPU.
///
/// cuBLASLt has epilogues for activations, too. They are not used: its GELU is the approximation by tanh, which is
/// another function than the layer's, and ReLU stands behind a linear layer in small networks only.
class LtProduct {
 public:
  static constexpr std::uint32_t kAlignmentBytes = 16;  ///< of all matrices and the vector; cuBLAS would expect 256

  /// @throws DeviceError if cuBLAS fails.
  LtProduct(const Device& device, const LtSpec& spec);

  /// Returns whether cuBLAS has an algorithm for the shape. Without one run() must not be called.
  bool exists() const { return algorithm_.has_value(); }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Multiplies on the stream of the calling thread. @param vector read or written, as the product says.
  void run(const void* left, const void* right, const void* vector, void* result, void* workspace) const;

 private:
  using Layout = LtDescriptor<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

  Device device_;
  LtDescriptor<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product_;
  Layout left_, right_, result_;
  std::optional<cublasLtMatmulAlgo_t> algorithm_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace dragonn::kernels::cuda
