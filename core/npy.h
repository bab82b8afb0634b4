// SPDX-License-Identifier: MIT
/// Reads and writes arrays in NumPy's .npy format, version 1.0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/shape.h"

namespace dragonn {

struct NpyArray {
  Shape shape;  ///< rank 0 for a scalar
  std::vector<float> values;
};

/// Writes `values` atomically, in C order, little-endian. T is float or std::int32_t.
/// @throws ShapeError if the shape has another size, SystemError if the file cannot be written.
template <class T>
void write_npy(const std::filesystem::path& path, const Shape& shape, std::span<const T> values);

/// Reads an array of float. @throws ConfigError if the file is missing; DataError that names the file and the problem:
/// no .npy file, another version, type or order than expected, a header that does not parse, a size that does not fit
/// the shape.
NpyArray read_npy(const std::filesystem::path& path);

}  // namespace dragonn
