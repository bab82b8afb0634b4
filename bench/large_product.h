// SPDX-License-Identifier: MIT
/// LargeProduct: a product of square matrices, large enough to reach a device's best rate.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/device_math.h"
#include "kernels/operation.h"

namespace dragonn::bench {

/// Multiplies two square matrices of standard normal numbers: a GPU is faster on constant ones, which need less power.
/// The factors have the type that the precision multiplies, so the library converts nothing.
class LargeProduct {
 public:
  /// @param side rows and columns of each matrix.
  explicit LargeProduct(std::int64_t side) : side_(side) {}
  virtual ~LargeProduct() = default;

  /// Returns 2 per multiply-add.
  double flops() const {
    return 2.0 * static_cast<double>(side_) * static_cast<double>(side_) * static_cast<double>(side_);
  }
  /// Multiplies; returns when the product is complete.
  virtual void run() = 0;

 protected:
  std::int64_t side() const { return side_; }
  std::size_t elements() const { return static_cast<std::size_t>(side_ * side_); }

 private:
  std::int64_t side_;
};

/// Makes the product by the device's library: oneDNN's sgemm on the CPU, where only float32 is valid; cuBLAS on a GPU.
/// Holds three matrices of `side` x `side`.
extern kernels::Operation<std::unique_ptr<LargeProduct>(const Device& device, kernels::DeviceMath math,
                                                        std::int64_t side)>
    make_large_product;

/// Returns standard normal numbers for a factor. Large ones repeat 2^20 numbers, which no rate depends on.
std::vector<float> draw_factor(std::size_t elements, std::uint64_t seed);

}  // namespace dragonn::bench
