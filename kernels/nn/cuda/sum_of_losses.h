// SPDX-License-Identifier: MIT
/// Sum of losses: sums the losses of a batch's rows or samples. For .cu files.
#pragma once

#include <cstddef>

#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/runtime.h"

namespace dragonn::kernels::cuda {

/// The loss of a row or a sample.
struct OwnLoss {
  double loss;
  bool correct;
};

/// Sums losses in fixed order. One block. `Total` has `loss_sum` and `correct`.
template <class Total>
__global__ void sum_losses_kernel(const OwnLoss* losses, std::size_t count, Total* total) {
  double loss = 0;
  unsigned long long correct = 0;
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) {
    loss += losses[i].loss;
    correct += losses[i].correct ? 1 : 0;
  }
  loss = block_reduce(loss, Sum());
  correct = block_reduce(correct, Sum());
  if (threadIdx.x != 0) return;
  total->loss_sum = loss;
  total->correct = correct;
}

/// Starts the sum. @param losses [count], on the GPU, as is `total`.
template <class Total>
void sum_losses(const Context& here, const OwnLoss* losses, std::size_t count, Total* total) {
  launch(here, "sum_of_losses", 1, kThreads, sum_losses_kernel<Total>, losses, count, total);
}

}  // namespace dragonn::kernels::cuda
