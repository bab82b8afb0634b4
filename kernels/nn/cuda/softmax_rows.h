// SPDX-License-Identifier: MIT
/// Softmax sums: the moments of a row for its softmax, by the threads of a block. For .cu files.
#pragma once

#include "kernels/cuda/block_reduce.h"

namespace dragonn::kernels::cuda {

/// The moments of a row, as detail::RowSums of kernels/nn/loss_rows.h: `distances` is not finite if a value of the
/// row is not.
struct SoftmaxSums {
  float largest;
  std::uint32_t position;  // of the first of the largest values
  double exponentials;     // sum of exp(x - largest)
  double distances;        // sum of x - largest
};

/// Returns the moments of row [size], size > 0, a pointer or a Reader or Writer, to every thread of the block.
template <class Row>
__device__ SoftmaxSums softmax_sums(const Row& row, std::size_t size) {
  unsigned long long rank = 0;
  for (std::size_t i = threadIdx.x; i < size; i += blockDim.x) {
    const unsigned long long own = ranked(row[i], static_cast<std::uint32_t>(i));
    if (own > rank) rank = own;
  }
  rank = block_reduce(rank, Maximum());
  SoftmaxSums sums{};
  sums.position = rank == 0 ? 0 : ranked_position(rank);  // all are NaN
  sums.largest = row[sums.position];
  double exponentials = 0, distances = 0;
  for (std::size_t i = threadIdx.x; i < size; i += blockDim.x) {
    const float distance = row[i] - sums.largest;
    exponentials += expf(distance);
    distances += distance;
  }
  sums.exponentials = block_reduce(exponentials, Sum());
  sums.distances = block_reduce(distances, Sum());
  return sums;
}

}  // namespace dragonn::kernels::cuda
