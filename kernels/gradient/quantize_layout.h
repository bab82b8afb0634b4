// SPDX-License-Identifier: MIT
/// Layout of codes, which are read and written by copies, since they need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "core/device.h"
#include "core/view.h"
#include "kernels/gradient/quantize.h"

namespace dragonn::kernels::detail {

template <class T>
DRAGONN_HOST_DEVICE inline T load_code(const std::byte* place) {
  T value{};
  std::memcpy(&value, place, sizeof value);
  return value;
}
template <class T>
DRAGONN_HOST_DEVICE inline void store_code(T value, std::byte* place) {
  std::memcpy(place, &value, sizeof value);
}

/// Several codes of one length, back to back.
struct Codes {
  const std::byte* first = nullptr;
  std::size_t count = 0;
  std::size_t bytes = 0;  ///< of one code

  constexpr const std::byte* operator[](std::size_t code) const { return first + code * bytes; }
};

/// Splits `codes`. @throws ShapeError if they are not a number of codes of `bytes` each.
inline Codes codes_of(const char* what, View<const std::byte> codes, std::size_t bytes) {
  const std::size_t count = bytes == 0 ? 0 : codes.size() / bytes;  // without elements a code may be empty
  if (codes.size() != count * bytes) {
    throw ShapeError(fmt::format("{} of {} bytes, expected a multiple of {}", what, codes.size(), bytes));
  }
  return {codes.data(), count, bytes};
}
/// Checks the size of a code. @throws ShapeError if it has not `bytes` bytes.
inline void check_code(const char* what, std::size_t seen, std::size_t bytes) {
  if (seen != bytes) throw ShapeError(fmt::format("{} of {} bytes, expected {}", what, seen, bytes));
}

// Sign code: the scale, then words of 32 signs.
inline constexpr std::size_t kSignsPerWord = 32;

constexpr std::size_t sign_word_place(std::size_t word) {
  return sizeof(float) + word * sizeof(std::uint32_t);
}

/// Returns the norm of a group as its code has it. A finite one that is too large for a float is the largest float of
/// which 1 to 127 levels, each rounded, are still finite.
DRAGONN_HOST_DEVICE inline float level_norm(double norm) {
  constexpr float kLargest = 0x1.fffff8p127f;
  constexpr double kLargestDouble = 0x1.fffffffffffffp1023;
  return norm > double{kLargest} && norm <= kLargestDouble ? kLargest : static_cast<float>(norm);
}

/// Level code: the groups' norms, then a byte per element.
struct LevelJob {
  std::size_t group = 1;   ///< elements of a group
  std::size_t groups = 0;  ///< groups of a code
  float levels = 1;
  std::uint64_t key = 0;  ///< key of the draws
};
inline std::size_t group_count(std::size_t numel, const LevelFormat& format) {
  return numel / format.group + (numel % format.group == 0 ? 0 : 1);
}
inline LevelJob level_job(std::size_t numel, const LevelFormat& format, std::uint64_t key) {
  return {format.group, group_count(numel, format), static_cast<float>(format.levels), key};
}
constexpr std::size_t level_place(std::size_t groups, std::size_t element) {
  return groups * sizeof(float) + element;
}

}  // namespace dragonn::kernels::detail
