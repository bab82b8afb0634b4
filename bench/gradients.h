// SPDX-License-Identifier: MIT
/// Gradients to measure on, drawn from a distribution or read from a user's files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/buffer.h"

namespace dragonn::bench {

/// Returns the names that draw_gradient knows: laplace, normal, student (3 degrees of freedom), sparse (normal, 99 %
/// zeros).
std::vector<std::string> distributions();

/// Overwrites `values` with independent draws, keyed by `seed`, whatever the number of threads.
/// @throws ConfigError for an unknown name.
void draw_gradient(const std::string& distribution, std::uint64_t seed, std::span<float> values);

/// The properties that make gradients look like those of training: workers share a component, which is drawn anew every
/// step, and layers differ in scale. Magnitudes have a heavier tail than normal ones (sums of two Laplace draws).
struct WorkerGradientRules {
  std::uint64_t seed = 1;
  double correlation = 0.5;  ///< of an element between two workers, in [0, 1]
};

/// Overwrites `gradient`; it is the same for the same seed, step and rank. Draws from a table, each piece from a place
/// of its own: one pass over memory.
void draw_worker_gradient(const WorkerGradientRules& rules, std::uint64_t step, int rank, std::span<float> gradient);

/// Reads a gradient, a float32 array in NumPy's format. @param dimensions that it must have; 0: any.
/// @throws ConfigError if the file is missing, DataError if it is no such array, is empty or holds a NaN or an
/// infinity.
std::vector<float> read_gradient(const std::filesystem::path& file, std::size_t dimensions = 0);
/// Reads one gradient of any shape per file, in order. @throws as read_gradient, and DataError if one is of another
/// size than the first.
std::vector<std::vector<float>> read_gradients(const std::vector<std::filesystem::path>& files);

/// Returns a copy of values in host memory.
Buffer<float> on_device(std::span<const float> values, const Device& device);

}  // namespace dragonn::bench
