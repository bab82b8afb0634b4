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

/// Writes bits into memory, eight bytes at a time: up to seven bytes behind the last bit are overwritten.
class BitWriter {
 public:
  static constexpr unsigned kMax = 56;  ///< bits of one put

  explicit BitWriter(std::byte* to) : to_(to) {}

  /// Appends the low `count` bits, most significant first. @param bits 0 above them.  @param count 1 to kMost.
  void put(std::uint64_t bits, unsigned count) {
    pending_ |= bits << (64 - used_ - count);
    used_ += count;
    store(__builtin_bswap64(pending_), to_);
    to_ += used_ / 8;
    pending_ <<= used_ & ~7u;
    used_ %= 8;
  }
  /// Returns the first byte behind the stream; the rest of the last byte is 0.
  std::byte* end() const { return to_ + (used_ > 0 ? 1 : 0); }

 private:
  std::byte* to_;
  std::uint64_t pending_ = 0;  // bits that are not in a whole byte yet, from the most significant on
  unsigned used_ = 0;          // of them, below 8
};

/// Returns the bits from `position` on, the next one as the most significant bit. At least kWindowBits are valid; the
/// rest is 0. Reads eight bytes.
inline constexpr unsigned kWindowBits = 57;
inline std::uint64_t bits_at(const std::byte* stream, std::size_t position) {
  return __builtin_bswap64(load<std::uint64_t>(stream + position / 8)) << (position % 8);
}

}  // namespace dragonn::codec
