// SPDX-License-Identifier: MIT
/// Reads and writes arrays in NumPy's .npy format, version 1.0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/shape.h"

namespace dragonn {

template <class T>
struct NpyArray {
  Shape shape;  ///< rank 0 for a scalar
  std::vector<T> values;
};

/// Writes `values` atomically, in C order, little-endian. T is float, std::int32_t, std::int64_t or std::uint32_t.
/// @throws ShapeError if the shape has another size, SystemError if the file cannot be written.
template <class T>
void write_npy(const std::filesystem::path& path, const Shape& shape, std::span<const T> values);

/// Reads an array. @throws ConfigError if the file is missing; DataError that names the file and the problem: no .npy
/// file, another version, type or order than expected, a header that does not parse, a size that does not fit the
/// shape.
template <class T>
NpyArray<T> read_npy(const std::filesystem::path& path);

}  // namespace dragonn
