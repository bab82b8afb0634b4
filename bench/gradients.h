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
const std::vector<std::string>& distributions();

/// Overwrites `values` with independent draws, keyed by `seed`, whatever the number of threads.
/// @throws ConfigError for an unknown name.
void draw_gradient(const std::string& distribution, std::uint64_t seed, std::span<float> values);

/// Reads one gradient per file, in order: float32 arrays of any shape in NumPy's format.
/// @throws ConfigError if a file is missing, DataError if it is no such array, is empty, is of another size than the
/// first or holds a NaN or an infinity.
std::vector<std::vector<float>> read_gradients(const std::vector<std::filesystem::path>& files);

/// Returns a copy of values in host memory.
Buffer<float> on_device(std::span<const float> values, const Device& device);

}  // namespace dragonn::bench
