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
  Shape shape;  ///< rank 0: a scalar
  std::vector<T> values;
};

/// Writes `values` in C order, little-endian, replacing the file in one piece. T is float, std::int32_t, std::int64_t
/// or std::uint32_t. @throws ShapeError if the shape's size is another, SystemError if the file cannot be written.
template <class T>
void write_npy(const std::filesystem::path& path, const Shape& shape, std::span<const T> values);

/// @throws ConfigError if the file is missing; DataError naming the file, and what is wrong: no .npy file, another
/// version, type than T or order, a header that does not parse, a size that is not the shape's.
template <class T>
NpyArray<T> read_npy(const std::filesystem::path& path);

}  // namespace dragonn
