// SPDX-License-Identifier: MIT
/// BiasedProduct: a product of bf16 matrices that adds a bias before it rounds, by cuBLASLt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cublasLt.h>
#include <optional>

#include "kernels/cuda/runtime.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels::cuda {

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

/// The product output [rows, columns] = input [rows, inner] * weights [columns, inner]^T + bias [columns]. All are bf16
/// and begin at multiples of 16 bytes; sums are float32, and the result is rounded once. The algorithm is the first of
/// cuBLAS's heuristics, so equal shapes have equal bits on one type of GPU.
class BiasedProduct {
 public:
  /// @throws DeviceError if cuBLAS fails.
  BiasedProduct(const Device& device, std::int64_t rows, std::int64_t inner, std::int64_t columns);

  /// Returns whether cuBLAS has an algorithm for the shape. Without one run() must not be called.
  bool exists() const { return algorithm_.has_value(); }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Multiplies on the stream of the calling thread.
  void run(const void* input, const void* weights, const void* bias, void* output, void* workspace) const;

 private:
  using Layout = LtDescriptor<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

  Device device_;
  LtDescriptor<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product_;
  Layout weights_, input_, output_;
  std::optional<cublasLtMatmulAlgo_t> algorithm_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace dragonn::kernels::cuda
