// SPDX-License-Identifier: MIT
/// Messages that are put together from parts in memory, and taken apart again.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn {

/// Appends a part, which is none of `bytes`. GCC 12 takes vector::insert of few bytes for a write beyond its memory.
inline void append_bytes(std::vector<std::byte>& bytes, std::span<const std::byte> part) {
  const std::size_t size = bytes.size();
  bytes.resize(size + part.size());
  if (!part.empty()) std::memcpy(bytes.data() + size, part.data(), part.size());
}

/// Takes values off the front of a message. @param what names it for the error. @throws DataError if it is cut off.
template <class T>
void take_values(std::span<const std::byte>& bytes, std::span<T> values, std::string_view what) {
  if (bytes.size() < values.size_bytes()) throw DataError(fmt::format("{} is cut off", what));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size_bytes());
  bytes = bytes.subspan(values.size_bytes());
}

/// The same for one value, which it returns.
template <class T>
T take_value(std::span<const std::byte>& bytes, std::string_view what) {
  T value{};
  take_values(bytes, std::span<T>(&value, 1), what);
  return value;
}

}  // namespace dragonn
