// SPDX-License-Identifier: MIT
/// ArchiveView: fields that are written together as an archive is, from where they lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/archive.h"
#include "core/pieces.h"

namespace dragonn {

/// Refers to fields that outlive it.
class ArchiveView {
 public:
  /// A field, as Archive::Field describes it.
  struct Field {
    std::string type;
    std::vector<std::uint64_t> shape;
    std::span<const std::byte> bytes;

    explicit Field(const Archive::Field& field) : type(field.type), shape(field.shape), bytes(field.bytes) {}
    explicit Field(std::span<const float> values)
        : type(detail::element_type<float>()), shape{values.size()}, bytes(std::as_bytes(values)) {}
  };

  /// @throws Error when the name is taken.
  void put_field(const std::string& name, Field field);
  /// Returns what Archive::write would put in a file of these fields. Reads them once, for their checksums; they are
  /// not to change as long as what it returns is used.
  Pieces pieces() const;

 private:
  std::map<std::string, Field> fields_;
};

}  // namespace dragonn
