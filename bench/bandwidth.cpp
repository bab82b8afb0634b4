// SPDX-License-Identifier: MIT
#include "bench/bandwidth.h"

#include <cstddef>

#include "bench/device_timer.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::bench {
namespace {

/// The number of elements that a thread takes at a time. Pieces are handed out as threads become free, as in the
/// kernels, so that a thread that the machine holds up slows both alike.
constexpr std::ptrdiff_t kPiece = 1 << 18;

}  // namespace

float read_all(std::span<const float> values) {
  const float* const data = values.data();
  const auto size = static_cast<std::ptrdiff_t>(values.size());
  float total = 0;
  // Sums may be taken in any order here: `simd` lets the loop run at the speed of the loads.
#pragma omp parallel for simd reduction(+ : total) schedule(dynamic, kPiece)
  for (std::ptrdiff_t i = 0; i < size; ++i) total += data[i];
  return total;
}

void add_all(std::span<const float> values, std::span<float> sums) {
  const float* const source = values.data();
  float* const target = sums.data();
  const auto size = static_cast<std::ptrdiff_t>(values.size());
#pragma omp parallel for simd schedule(dynamic, kPiece)
  for (std::ptrdiff_t i = 0; i < size; ++i) target[i] += source[i];
}

void copy_all(std::span<const float> values, std::span<float> target) {
  const float* const from = values.data();
  float* const to = target.data();
  const auto size = static_cast<std::ptrdiff_t>(values.size());
#pragma omp parallel for simd schedule(dynamic, kPiece)
  for (std::ptrdiff_t i = 0; i < size; ++i) to[i] = from[i];
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

}  // namespace dragonn::bench
