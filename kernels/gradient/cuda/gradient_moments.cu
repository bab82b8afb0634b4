// SPDX-License-Identifier: MIT
// Accumulate fused with the moments of what acc becomes, in double. At most 1024 blocks, each of which takes every
// 1024th tile of 4096 elements; their sums are added in order.
#include <bit>

#include "kernels/cuda/ordered_sum.h"
#include "kernels/gradient/cuda/accumulate.h"
#include "kernels/gradient/cuda/gradient_sweep.h"

namespace dragonn::kernels::cuda {
namespace {

struct MomentSums {
  double sum = 0;
  double sum_squares = 0;
  double signed_sum = 0;
  std::uint64_t largest = 0;  // the bits of a magnitude, so that a NaN stays

  __device__ void see(float value) {
    const double wide = value;
    sum += fabs(wide);
    sum_squares += wide * wide;
    signed_sum += wide;
    largest = max(largest, std::uint64_t{magnitude_bits(value)});
  }
  __device__ void add(const MomentSums& other) {
    sum += other.sum;
    sum_squares += other.sum_squares;
    signed_sum += other.signed_sum;
    largest = max(largest, other.largest);
  }
};

template <AccumulateKind kKind, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    moments_kernel(AccumulateJob job, std::size_t numel, OrderedSum<MomentSums>* total) {
  MomentSums mine;
  accumulate_in_turns<kKind, kAligned>(job, numel, [&](float value) { mine.see(value); });
  finish_sum(mine, total);
}

}  // namespace

Moments sweep_moments(Context& here, const AccumulateJob& job, std::size_t numel) {
  if (numel == 0) return {};
  const auto sums = ordered_sum<MomentSums>(here, [&](OrderedSum<MomentSums>* total) {
    const unsigned blocks = sum_blocks(numel, kTileElements);
    with_kind(job, [&]<AccumulateKind kKind, bool kAligned>() {
      launch(here, "accumulate and moments", blocks, kThreads, moments_kernel<kKind, kAligned>, job, numel, total);
    });
  });
  return {.sum = sums.sum,
          .sum_squares = sums.sum_squares,
          .signed_sum = sums.signed_sum,
          .largest = std::bit_cast<float>(static_cast<std::uint32_t>(sums.largest))};
}

}  // namespace dragonn::kernels::cuda
