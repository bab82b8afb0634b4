// SPDX-License-Identifier: MIT
#include "bench/device_timer.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>

#include <oneapi/dnnl/dnnl.hpp>

#include "core/error.h"
#include "core/rng.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::bench {
namespace {

double time_on_cpu(const Device& /*device*/, const std::function<void()>& work) {
  return seconds_of(work);
}

/// The number of elements that a thread takes at a time. Pieces are handed out as threads become free, as in the
/// kernels, so that a thread that the machine holds up slows both alike.
constexpr std::ptrdiff_t kPiece = 1 << 18;

/// Returns the sum, so that nothing is optimized away.
float read_all(std::span<const float> values) {
  const float* const data = values.data();
  const auto size = static_cast<std::ptrdiff_t>(values.size());
  float total = 0;
  // Eight sums side by side: one would wait for additions, not for memory.
  using Lanes [[gnu::vector_size(16)]] = float;
  constexpr std::ptrdiff_t kSums = 8, kLanes = sizeof(Lanes) / sizeof(float);
#pragma omp parallel for reduction(+ : total) schedule(dynamic, 1)
  for (std::ptrdiff_t begin = 0; begin < size; begin += kPiece) {
    const std::ptrdiff_t end = std::min(size, begin + kPiece);
    Lanes sums[kSums] = {};
    std::ptrdiff_t i = begin;
    for (; i + kSums * kLanes <= end; i += kSums * kLanes) {
#pragma GCC unroll 8
      for (std::ptrdiff_t sum = 0; sum < kSums; ++sum) {
        Lanes loaded;
        std::memcpy(&loaded, data + i + sum * kLanes, sizeof(loaded));
        sums[sum] += loaded;
      }
    }
    for (const Lanes& sum : sums) total += sum[0] + sum[1] + sum[2] + sum[3];
    total += std::accumulate(data + i, data + end, 0.0f);
  }
  return total;
}

void copy_all(std::span<const float> values, std::span<float> target) {
  const float* const from = values.data();
  float* const to = target.data();
  const auto size = static_cast<std::ptrdiff_t>(values.size());
#pragma omp parallel for simd schedule(dynamic, kPiece)
  for (std::ptrdiff_t i = 0; i < size; ++i) to[i] = from[i];
}

std::function<void()> make_product_on_cpu(const Device& /*device*/, kernels::DeviceMath /*math*/, std::int64_t n) {
  return [n, a = draw_factor(n, 1), b = draw_factor(n, 2),
          c = std::vector<float>(static_cast<std::size_t>(n * n))]() mutable {
    const dnnl_status_t status = dnnl_sgemm('N', 'N', n, n, n, 1.0f, a.data(), n, b.data(), n, 0.0f, c.data(), n);
    DRAGONN_CHECK(status == dnnl_success, "oneDNN's sgemm failed with status {}", static_cast<int>(status));
  };
}

}  // namespace

constinit decltype(seconds_on) seconds_on("timer", time_on_cpu);
constinit decltype(make_large_product) make_large_product("large product", make_product_on_cpu);

void add_all(std::span<const float> values, std::span<float> sums) {
  const float* const source = values.data();
  float* const target = sums.data();
  const auto size = static_cast<std::ptrdiff_t>(values.size());
#pragma omp parallel for simd schedule(dynamic, kPiece)
  for (std::ptrdiff_t i = 0; i < size; ++i) target[i] += source[i];
}

double copy_seconds(const Device& device, View<const float> values, View<float> target) {
  if (!device.is_cpu()) return seconds_on(device, [&] { kernels::copy(values, target); });
  return seconds_on(device, [&] { copy_all(values.host(), target.host()); });
}

double read_seconds(const Device& device, View<const float> values, View<float> scratch) {
  if (!device.is_cpu()) return copy_seconds(device, values, scratch) * kReadBytes / kCopyBytes;
  volatile float total = 0;
  return seconds_on(device, [&] { total = read_all(values.host()); });
}

double add_seconds(const Device& device, View<const float> values, View<float> sums) {
  if (!device.is_cpu()) return seconds_on(device, [&] { kernels::add(values, sums, sums); });
  return seconds_on(device, [&] { add_all(values.host(), sums.host()); });
}

std::vector<float> draw_factor(std::int64_t side, std::uint64_t seed) {
  constexpr std::size_t kDrawn = std::size_t{1} << 20;
  std::vector<float> values(static_cast<std::size_t>(side * side));
  Rng stream(seed, "large product");
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i < kDrawn ? stream.normal() : values[i - kDrawn];
  return values;
}

}  // namespace dragonn::bench
