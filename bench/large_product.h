// SPDX-License-Identifier: MIT
/// LargeProduct: a product of square matrices, large enough to reach a device's best rate.
#pragma once

#include <memory>

#include "core/buffer.h"
#include "kernels/nn/linear.h"

namespace dragonn::bench {

/// Multiplies by oneDNN's sgemm on the CPU, by the plan of a linear layer on a GPU. Holds three square matrices of
/// float32.
class LargeProduct {
 public:
  explicit LargeProduct(const Device& device);

  double flops() const {
    return 2.0 * static_cast<double>(side_) * static_cast<double>(side_) * static_cast<double>(side_);
  }
  /// Multiplies; returns when the product is complete.
  void run();

 private:
  std::int64_t side_;
  Buffer<float> a_, b_, c_, saved_, scratch_;
  std::unique_ptr<kernels::WeightedPlan> plan_;  // null on the CPU
};

}  // namespace dragonn::bench
