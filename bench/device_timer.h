// SPDX-License-Identifier: MIT
/// Seconds of a piece of work, on this thread or on a device; and the machine's own rates, of plain loops and of large
/// matrix products.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/device.h"
#include "core/view.h"
#include "kernels/device_math.h"
#include "kernels/operation.h"

namespace dragonn::bench {

template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Runs the work and returns the seconds that passed on the device's own clock, from an idle device to an idle device.
extern kernels::Operation<double(const Device& device, const std::function<void()>& work)> seconds_on;

/// Adds: sums += values, by a plain loop on all OpenMP threads.
void add_all(std::span<const float> values, std::span<float> sums);

/// The bytes per element that are moved by reading, by copying, and by adding as to accumulate a gradient.
inline constexpr double kReadBytes = 4, kCopyBytes = 8, kAddBytes = 12;

/// Returns the seconds in which a device copies `values` to `target`, in its own memory.
double copy_seconds(const Device& device, View<const float> values, View<float> target);
/// Returns the seconds in which a device reads 4 bytes per element of `values`. A GPU's are taken as half the time of
/// copying them to `scratch`, the rate that its makers and others measure.
double read_seconds(const Device& device, View<const float> values, View<float> scratch);
/// Returns the seconds in which a device adds `values` to `sums`, by plain loops.
double add_seconds(const Device& device, View<const float> values, View<float> sums);

/// Returns a function that multiplies two matrices of `side` x `side` standard normal numbers, and returns when the
/// product is complete. (A GPU is faster on constant ones, which need less power.) The factors have the type that the
/// precision multiplies, so the library converts nothing: oneDNN's sgemm on the CPU, where only float32 is valid;
/// cuBLAS on a GPU.
extern kernels::Operation<std::function<void()>(const Device& device, kernels::DeviceMath math, std::int64_t side)>
    make_large_product;

/// Returns standard normal numbers for a factor of `side` x `side`. Large ones repeat 2^20 numbers, which no rate
/// depends on.
std::vector<float> draw_factor(std::int64_t side, std::uint64_t seed);

}  // namespace dragonn::bench
