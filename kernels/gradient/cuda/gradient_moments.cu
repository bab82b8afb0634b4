// SPDX-License-Identifier: MIT
// Accumulate fused with the moments of what acc becomes, in double. At most 1024 blocks, each of which takes every
// 1024th tile of 4096 elements; their sums are added in order.
#include <bit>

#include "kernels/cuda/ordered_sum.h"
#include "kernels/gradient/cuda/accumulate.h"
#include "kernels/gradient/cuda/gradient_sweep.h"

namespace dragonn::kernels::cuda {
namespace {

struct MomentSums : MomentTotals {
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

static_assert(sizeof(MomentSums) == sizeof(MomentTotals), "the report of a sweep receives the sums as they are");

template <AccumulateKind kKind, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    moments_kernel(AccumulateJob job, std::size_t numel, OrderedSum<MomentSums>* total) {
  MomentSums mine;
  accumulate_in_turns<kKind, kAligned>(job, numel, [&](float value) { mine.see(value); });
  finish_sum(mine, total);
}

}  // namespace

void start_moments(Context& here, const AccumulateJob& job, std::size_t numel, SweepReport& report) {
  report.moments = {};
  if (numel == 0) return;
  const auto start = [&](OrderedSum<MomentSums>* total) {
    const unsigned blocks = sum_blocks(numel, kTileElements);
    with_kind(job, [&]<AccumulateKind kKind, bool kAligned>() {
      launch(here, "accumulate and moments", blocks, kThreads, moments_kernel<kKind, kAligned>, job, numel, total);
    });
  };
  start_ordered_sum<MomentSums>(here, start, &report.moments);
}

Moments moments_of(const MomentTotals& totals) {
  return {.sum = totals.sum,
          .sum_squares = totals.sum_squares,
          .signed_sum = totals.signed_sum,
          .largest = std::bit_cast<float>(static_cast<std::uint32_t>(totals.largest))};
}

}  // namespace dragonn::kernels::cuda
