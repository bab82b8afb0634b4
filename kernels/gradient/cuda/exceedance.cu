// SPDX-License-Identifier: MIT
// Statistics of exceedances, and sums of logarithms, in double: a thread per element, sums in a fixed order. Reads
// 4 bytes per element.
#include "kernels/cuda/block_reduce.h"
#include "kernels/gradient/cuda/accumulate.h"
#include "kernels/gradient/exceedance.h"

namespace dragonn::kernels::cuda {
namespace {

struct ExceedanceSums {
  std::uint64_t count = 0;
  double sum = 0;
  double sum_squares = 0;
  double smallest = INFINITY;

  __device__ void add(const ExceedanceSums& other) {
    count += other.count;
    sum += other.sum;
    sum_squares += other.sum_squares;
    smallest = fmin(smallest, other.smallest);
  }
};

template <bool kAligned>
__global__ void __launch_bounds__(kThreads)
    exceedances_kernel(const float* values, std::size_t size, float threshold, OrderedSum<ExceedanceSums>* total) {
  ExceedanceSums mine;
  for_each_value<kAligned>(values, size, [&](float value) {
    const float magnitude = fabsf(value);
    if (!(magnitude > threshold)) return;
    const double excess = static_cast<double>(magnitude) - static_cast<double>(threshold);
    mine.add({1, excess, excess * excess, static_cast<double>(magnitude)});
  });
  finish_sum(mine, total);
}

Exceedances exceedances_on_gpu(View<const float> values, float threshold) {
  if (values.empty() || !std::isfinite(threshold)) return {};
  Context& here = context(values.device());
  const AccumulateJob job{.gradient = values.data()};
  const auto sums = ordered_sum<ExceedanceSums>(here, [&](OrderedSum<ExceedanceSums>* total) {
    const unsigned blocks = sum_blocks(values.size(), kTileElements);
    with_alignment<AccumulateKind::kExamine>(job, [&]<AccumulateKind kKind, bool kAligned>() {
      launch(here, "exceedances", blocks, kThreads, exceedances_kernel<kAligned>, values.data(), values.size(),
             threshold, total);
    });
  });
  return {.count = sums.count,
          .sum = sums.sum,
          .sum_squares = sums.sum_squares,
          .smallest = static_cast<float>(sums.smallest)};
}

Exceedances exceedances_and_entries_on_gpu(View<const float> values, float threshold, float min,
                                           SparseVector& selected) {
  select_uncounted(values, min, {0, values.size()}, selected);
  return exceedances_on_gpu(values, threshold);
}

struct LogSum {
  double sum = 0;
  __device__ void add(const LogSum& other) { sum += other.sum; }
};

/// The number of factors in [1e-18, 2] per logarithm: their product does not fall to 0.
constexpr int kMaxFactors = 16;

template <bool kAligned>
__global__ void __launch_bounds__(kThreads)
    logs_kernel(const float* values, std::size_t size, double scale, double offset, OrderedSum<LogSum>* total) {
  LogSum mine;
  double product = 1;
  int factors = 0;
  for_each_value<kAligned>(values, size, [&](float value) {
    const double factor = scale * fabs(static_cast<double>(value)) + offset;
    if (factor == factor) product *= factor;
    if (++factors < kMaxFactors) return;
    mine.sum += log(product);
    product = 1;
    factors = 0;
  });
  mine.sum += log(product);
  finish_sum(mine, total);
}

double logs_on_gpu(View<const float> values, double scale, double offset) {
  if (values.empty()) return 0;
  Context& here = context(values.device());
  const AccumulateJob job{.gradient = values.data()};
  const LogSum logs = ordered_sum<LogSum>(here, [&](OrderedSum<LogSum>* total) {
    const unsigned blocks = sum_blocks(values.size(), kTileElements);
    with_alignment<AccumulateKind::kExamine>(job, [&]<AccumulateKind kKind, bool kAligned>() {
      launch(here, "sum_magnitude_logs", blocks, kThreads, logs_kernel<kAligned>, values.data(), values.size(), scale,
             offset, total);
    });
  });
  return logs.sum;
}

[[maybe_unused]] const bool registered =
    kernels::exceedances.add(DeviceType::kCuda, exceedances_on_gpu) &&
    kernels::exceedances_and_entries.add(DeviceType::kCuda, exceedances_and_entries_on_gpu) &&
    kernels::sum_magnitude_logs.add(DeviceType::kCuda, logs_on_gpu);

}  // namespace
}  // namespace dragonn::kernels::cuda
