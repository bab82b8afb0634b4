// SPDX-License-Identifier: MIT
/// ListCodec: writes a list of selected entries as bytes for the wire, and reads it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "core/registry.h"
#include "core/sparse_vector.h"

namespace dragonn::codec {

/// A codec for lists of entries. It has no state: one object serves all buckets of a rank. Lists and codes are host
/// memory. Indices are exact; a codec that changes values needs a memory that keeps the difference.
class ListCodec {
 public:
  virtual ~ListCodec() = default;

  /// Returns the length of the longest code of that many entries, in bytes.
  /// @param has_values false if indices travel alone.
  virtual std::size_t most_bytes(std::size_t entries, bool has_values) const = 0;
  /// Returns whether every code of a number of entries is that long. Otherwise ranks send each other the lengths.
  virtual bool is_fixed_size() const = 0;
  /// Writes the code of a list at the beginning of `code`. Returns its length: all of `code` for a codec of a fixed
  /// size, which marks places without an entry as empty.
  /// @param code at least most_bytes() of the list long, aligned to 4 bytes.
  virtual std::size_t encode(const ListView& list, bool has_values, std::span<std::byte> code) const = 0;
  /// Reads a code of exactly this length, which may come from another rank. The list lies in `code` itself or in
  /// `room`, and may end with empty slots. @throws DataError for bytes that are no code.
  virtual ListView decode(std::span<const std::byte> code, bool has_values, SparseVector& room) const = 0;
};

struct ListCodecEntry : RegistryEntry {
  static constexpr const char* kKind = "codec";
  std::function<std::unique_ptr<ListCodec>(const Settings&)> make;
};

/// The name of the codec that papers use: indices and values as they are.
inline constexpr const char* kRawCodec = "raw32";

}  // namespace dragonn::codec
