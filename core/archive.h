// SPDX-License-Identifier: MIT
/// Archive: named binary fields with checksums, the content of a checkpoint file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace dragonn {

/// A set of named fields. A component writes its fields below a prefix that its owner gives ("bucket3/residual").
/// On disk, little-endian: magic, version, field count, then per field the size of its name, name, byte count, bytes,
/// and XXH3-64 of all these, so that no damaged byte goes unnoticed.
class Archive {
 public:
  /// Adds a field. @throws Error when the name is taken.
  void put_bytes(const std::string& name, std::span<const std::byte> bytes);
  /// @throws DataError that names the field if it is absent.
  std::span<const std::byte> bytes(const std::string& name) const;
  bool contains(const std::string& name) const { return fields_.contains(name); }

  template <class T>
  requires std::is_arithmetic_v<T>
  void put(const std::string& name, T value) { put_bytes(name, std::as_bytes(std::span(&value, 1))); }
  template <class T>
  requires std::is_arithmetic_v<T> T get(const std::string& name)
  const {
    T value;
    copy_to(name, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <class T>
  void put_array(const std::string& name, std::span<const T> values) {
    put_bytes(name, std::as_bytes(values));
  }
  /// Fills `values`. @throws DataError if the field has another size.
  template <class T>
  void get_array(const std::string& name, std::span<T> values) const {
    copy_to(name, std::as_writable_bytes(values));
  }
  template <class T>
  std::vector<T> get_vector(const std::string& name) const {
    std::vector<T> values(bytes(name).size() / sizeof(T));
    get_array(name, std::span<T>(values));
    return values;
  }
  void put_text(const std::string& name, const std::string& text) { put_bytes(name, std::as_bytes(std::span(text))); }
  std::string get_text(const std::string& name) const;

  /// Returns the sum of the fields' sizes.
  std::size_t size_bytes() const;
  const std::map<std::string, std::vector<std::byte>>& fields() const { return fields_; }

  /// Writes and fsyncs `path`. @throws SystemError (full disk, permission); a partial file is removed.
  void write(const std::filesystem::path& path) const;
  /// @throws DataError naming the file, the field and the offset when a checksum or a size is wrong.
  static Archive read(const std::filesystem::path& path);

 private:
  void copy_to(const std::string& name, std::span<std::byte> target) const;

  std::map<std::string, std::vector<std::byte>> fields_;
};

/// Returns the bytes that Archive::write would put in a file. O(size) time and memory.
std::vector<std::byte> to_bytes(const Archive& archive);

/// Reads such bytes. @param name stands for the file in errors. @throws DataError, as Archive::read.
Archive archive_from_bytes(std::span<const std::byte> bytes, const std::string& name);

}  // namespace dragonn
