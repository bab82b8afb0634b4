// SPDX-License-Identifier: MIT
/// Archive: named arrays with checksums, the content of a checkpoint file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace dragonn {

namespace detail {
/// Returns the name that safetensors give a type of number.
template <class T>
requires std::is_arithmetic_v<T>
constexpr const char* element_type() {
  constexpr std::size_t kWidth = sizeof(T) == 8 ? 3 : sizeof(T) / 2;
  constexpr const char* kNames[3][4] = {
      {"U8", "U16", "U32", "U64"}, {"I8", "I16", "I32", "I64"}, {"", "", "F32", "F64"}};
  if constexpr (std::is_same_v<T, bool>) return "BOOL";
  return kNames[std::is_floating_point_v<T> ? 2 : std::is_signed_v<T>][kWidth];
}
}  // namespace detail

/// A set of named fields. A component writes its fields below a prefix that its owner gives ("bucket3/residual").
/// On disk it is a safetensors file (core/safetensors.h): every field is a tensor, of one axis unless it is a single
/// number. Its metadata have a checksum of every field (XXH3-64), over name, type, shape and content, and the header
/// has one form alone, so that no damaged byte goes unnoticed.
class Archive {
 public:
  struct Field {
    std::string type;                  ///< as safetensors name it: "F32", "U64"
    std::vector<std::uint64_t> shape;  ///< empty for a single number
    std::vector<std::byte> bytes;

    friend bool operator==(const Field&, const Field&) = default;
  };

  /// Adds a field. @throws Error when the name is taken.
  void put_field(const std::string& name, Field field);
  /// @throws DataError that names the field if it is absent.
  std::span<const std::byte> bytes(const std::string& name) const;
  bool contains(const std::string& name) const { return fields_.contains(name); }

  template <class T>
  void put(const std::string& name, T value) {
    put_values(name, {}, std::span<const T>(&value, 1));
  }
  template <class T>
  T get(const std::string& name) const {
    T value;
    copy_to(name, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <class T>
  void put_array(const std::string& name, std::span<const T> values) {
    put_values(name, {values.size()}, values);
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
  /// Adds a text, an array of its bytes.
  void put_text(const std::string& name, const std::string& text);
  std::string get_text(const std::string& name) const;

  /// Returns the sum of the fields' sizes.
  std::size_t size_bytes() const;
  const std::map<std::string, Field>& fields() const { return fields_; }

  /// Writes and fsyncs `path`. @throws SystemError (full disk, permission); a partial file is removed.
  void write(const std::filesystem::path& path) const;
  /// @throws DataError naming the file, the field and the offset when a checksum or a size is wrong.
  static Archive read(const std::filesystem::path& path);

 private:
  template <class T>
  void put_values(const std::string& name, std::vector<std::uint64_t> shape, std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    put_field(name, {detail::element_type<T>(), std::move(shape), {bytes.begin(), bytes.end()}});
  }
  void copy_to(const std::string& name, std::span<std::byte> target) const;

  std::map<std::string, Field> fields_;
};

/// Returns the bytes that Archive::write would put in a file. O(size) time and memory.
std::vector<std::byte> to_bytes(const Archive& archive);

/// Reads such bytes. @param name stands for the file in errors. @throws DataError, as Archive::read.
Archive archive_from_bytes(std::span<const std::byte> bytes, const std::string& name);

}  // namespace dragonn
