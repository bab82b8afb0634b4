// SPDX-License-Identifier: MIT
/// ListValueCodec: writes the values of a list's entries as bytes, and reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/buffer.h"
#include "core/registry.h"

namespace dragonn::codec {

/// A codec for float32 values in host memory. It has no state: equal values give equal codes, also where a codec rounds
/// at random. Numbers in codes are little-endian. Values that are not finite decode to something that is not finite, or
/// to the largest finite number; they never break a code.
class ListValueCodec {
 public:
  virtual ~ListValueCodec() = default;

  /// Returns the length of every code of that many values, in bytes; 0 for none.
  virtual std::size_t code_bytes(std::size_t values) const = 0;
  /// Writes the code of at least one value. @param code code_bytes() long.
  virtual void encode(std::span<const float> values, std::span<std::byte> code) const = 0;
  /// Reads the code of `count` values, at least one, which may come from another rank. Any bytes are a code. Returns
  /// the values: in `code` itself or in `scratch`. @param code code_bytes(count) long, aligned to 4 bytes.
  virtual std::span<const float> decode(std::span<const std::byte> code, std::size_t count,
                                        Buffer<float>& scratch) const = 0;
};

struct ListValueCodecEntry : RegistryEntry {
  static constexpr const char* kKind = "value codec";
  bool lossy = true;      ///< decoded values differ from the encoded ones
  bool unbiased = false;  ///< their expectation does not
  std::function<std::unique_ptr<ListValueCodec>(const Settings&)> make;
  /// Each value has a code of its own, and values are 16 bits: precise enough for partial sums to travel in.
  bool carries_sums = false;
};

/// The name of the value codec that papers use: values as they are.
inline constexpr const char* kRawValues = "float32";

}  // namespace dragonn::codec
