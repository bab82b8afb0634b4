// SPDX-License-Identifier: MIT
/// The bytes of codes: numbers in little-endian order, and a reader that never reads behind the end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::codec {

static_assert(std::endian::native == std::endian::little, "codes are little-endian");

/// Reads a number that may stand at any address.
template <class T>
T load(const std::byte* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// Writes a number at any address.
template <class T>
void store(const T& value, std::byte* to) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(to, &value, sizeof(T));
}

/// Reads a code from front to back.
class CodeReader {
 public:
  /// @param name the codec, for errors.
  CodeReader(const char* name, std::span<const std::byte> code) : name_(name), code_(code) {}

  /// Returns the next bytes. @throws DataError that names `what` if there are not as many.
  std::span<const std::byte> take(std::uint64_t bytes, const char* what) {
    if (bytes > code_.size()) fail("{} bytes left for {} of {}", code_.size(), what, bytes);
    const std::span<const std::byte> taken = code_.first(static_cast<std::size_t>(bytes));
    code_ = code_.subspan(taken.size());
    return taken;
  }
  /// Returns the next number. @throws DataError as take.
  template <class T>
  T number(const char* what) {
    return load<T>(take(sizeof(T), what).data());
  }
  /// Returns the bytes that were not taken.
  std::span<const std::byte> rest() const { return code_; }

  /// Throws a DataError that begins with the codec's name.
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw DataError(fmt::format("{}: {}", name_, fmt::format(format, std::forward<Args>(args)...)));
  }
  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> otherwise, Args&&... args) const {
    if (!holds) [[unlikely]]
      fail(otherwise, std::forward<Args>(args)...);
  }

 private:
  const char* name_;
  std::span<const std::byte> code_;
};

}  // namespace dragonn::codec
