// SPDX-License-Identifier: MIT
/// IndexCodec: writes the indices of a list as bytes, and reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "core/buffer.h"
#include "core/registry.h"

namespace dragonn::codec {

/// A lossless codec for ascending, unique indices below kEmptySlot, in host memory. It has no state. A code tells its
/// own end, and the code of no indices is empty. Numbers in codes are little-endian and need no alignment.
class IndexCodec {
 public:
  virtual ~IndexCodec() = default;

  /// Returns the room that encode needs for that many indices, in bytes: at least the length of the longest code.
  virtual std::size_t max_bytes(std::size_t indices) const = 0;
  /// Writes the code of at least one index at the beginning of `code`, and returns its length. What follows it in
  /// `code` is undefined. @param code at least max_bytes() long.
  virtual std::size_t encode(std::span<const std::uint32_t> indices, std::span<std::byte> code) const = 0;
  /// Returns the length of the code of at least one index, if it takes no look at more than their ends.
  virtual std::optional<std::size_t> known_bytes(std::span<const std::uint32_t> /*indices*/) const {
    return std::nullopt;
  }
  /// Reads the code at the beginning of `code`, which is not empty and may come from another rank: indices <- what was
  /// encoded. Returns the bytes behind it. Needs memory for a few numbers per byte of `code` at most.
  /// @throws DataError that says what is wrong, for bytes that are no code. ListCodec checks that indices ascend.
  virtual std::span<const std::byte> decode(std::span<const std::byte> code, Buffer<std::uint32_t>& indices) const = 0;

  /// Returns the expected bits of an index in the code of that many indices, drawn at random from `numel`.
  virtual double expected_bits(double indices, double numel) const = 0;
};

struct IndexCodecEntry : RegistryEntry {
  static constexpr const char* kKind = "index codec";
  bool is_exact = true;  ///< expected_bits follows from the number of indices alone; otherwise it is an estimate
  std::function<std::unique_ptr<IndexCodec>(const Settings&)> make;
};

/// The name of the index codec that papers use: indices as they are.
inline constexpr const char* kRawIndices = "raw32";

}  // namespace dragonn::codec
