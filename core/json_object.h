// SPDX-License-Identifier: MIT
/// JsonObject: an object of a JSON file whose keys are named once, for writing and for reading.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dragonn {

/// An object of a file that is written, or read. Each call names a key: it writes the value, or reads it. Errors of
/// reading are DataErrors that name the file, the object, the key and its value, and say what is valid.
class JsonObject {
 public:
  using Written = nlohmann::ordered_json;
  using Parsed = nlohmann::json;  ///< finds keys in a time that does not grow with their number

  explicit JsonObject(Written& written) : written_(&written) {}
  /// @param where the file, and the place in it. @throws DataError if `read`, which outlives this object, is none.
  JsonObject(const Parsed& read, std::string where);
  /// Parses a file's text. @throws DataError if it is no JSON.
  static Parsed parse(const std::string& text, const std::string& name);

  bool reads() const { return read_ != nullptr; }
  /// Writes or checks the version of the format.
  void version(std::size_t number);
  /// A number of at least `minimum`, which is 0, or the least number above 0 (kAbove0).
  void field(const char* key, double& value, double minimum = 0);
  /// A small number, as of ranks.
  void field(const char* key, int& value) { integer(key, value, 1, 1 << 20); }
  void field(const char* key, std::size_t& value, std::size_t minimum);
  void field(const char* key, bool& value);
  void field(const char* key, std::string& value);
  /// A list of two numbers of at least 0.
  void pair(const char* key, double& first, double& second);
  void one_of(const char* key, std::string& value, const char* first, const char* second);
  /// Writes a key, and returns true; returns false where it is to be read. What is not read follows from other keys.
  template <class T>
  bool write(const char* key, const T& value) {
    if (!reads()) (*written_)[key] = value;
    return !reads();
  }
  /// Returns whether the object has the key, or is to have it.
  bool has(const char* key, bool is_written = true) const { return reads() ? read_->contains(key) : is_written; }
  /// Checks, where it reads, that the object has no other keys.
  void allow_only(const std::vector<std::string>& keys) const;
  JsonObject object(const char* key);
  /// @param visit is called with the object of each value, and the value.
  template <class T, class Visit>
  void list(const char* key, std::vector<T>& values, const Visit& visit) {
    if (reads()) return read_list(array(key), fmt::format("{}: {}", where_, key), values, visit);
    Written& list = (*written_)[key] = Written::array();
    for (T& value : values) {
      list.emplace_back();
      visit(JsonObject(list.back()), value);
    }
  }
  template <class T, class Visit>
  static void read_list(const Parsed& list, const std::string& where, std::vector<T>& values, const Visit& visit) {
    for (std::size_t i = 0; i < list.size(); ++i)
      visit(JsonObject(list[i], fmt::format("{} {}", where, i)), values.emplace_back());
  }
  /// Throws the DataError about a key's value.
  [[noreturn]] void fail(const char* key, const std::string& expected) const;

  static constexpr double kAbove0 = std::numeric_limits<double>::denorm_min();  ///< the least number above 0

 private:
  template <class T>
  void integer(const char* key, T& value, std::size_t minimum, std::size_t maximum) {
    if (!write(key, value)) value = static_cast<T>(read_integer(key, minimum, maximum));
  }
  std::size_t read_integer(const char* key, std::size_t minimum, std::size_t maximum) const;
  const Parsed& array(const char* key) const;
  const Parsed& find(const char* key) const;

  Written* written_ = nullptr;
  const Parsed* read_ = nullptr;
  std::string where_;
};

}  // namespace dragonn
