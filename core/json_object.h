// SPDX-License-Identifier: MIT
/// JsonObject: an object of a JSON file whose keys are named once, for writing and for reading. JsonText: the file.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace dragonn {

/// An object of a text that is written, or read. Each call names a key: it writes the value, or reads it. Errors of
/// reading are DataErrors that name the file, the object, the key and its value, and say what is valid. The text
/// outlives its objects.
class JsonObject {
 public:
  bool reads() const { return read_ != nullptr; }
  /// Writes or checks the version of the format.
  void version(std::size_t number);
  /// A number of at least `minimum`, which is 0, or the least number above 0 (kAbove0).
  void field(const char* key, double& value, double minimum = 0);
  /// A small number, as of ranks.
  void field(const char* key, int& value);
  void field(const char* key, std::size_t& value, std::size_t minimum);
  void field(const char* key, bool& value);
  void field(const char* key, std::string& value);
  /// A list of two numbers of at least 0.
  void pair(const char* key, double& first, double& second);
  void one_of(const char* key, std::string& value, const char* first, const char* second);
  /// Writes a key, and returns true; returns false where it is to be read. What is not read follows from other keys.
  bool write(const char* key, double value);
  bool write(const char* key, std::size_t value);
  bool write(const char* key, bool value);
  bool write(const char* key, const std::string& value);
  bool write(const char* key, const char* value) { return write(key, std::string(value)); }
  /// Returns whether the object has the key, or is to have it.
  bool has(const char* key, bool is_written = true) const;
  /// Checks, where it reads, that the object has no other keys.
  void allow_only(const std::vector<std::string>& keys) const;
  JsonObject object(const char* key);
  /// @param visit is called with the object of each value, and the value.
  template <class T, class Visit>
  void list(const char* key, std::vector<T>& values, const Visit& visit) {
    const List all = list_of(key);
    for (std::size_t i = 0; reads() && i < all.size; ++i) visit(all.at(i), values.emplace_back());
    for (std::size_t i = 0; !reads() && i < values.size(); ++i) visit(all.append(), values[i]);
  }
  /// Throws the DataError about a key's value.
  [[noreturn]] void fail(const char* key, const std::string& expected) const;

  static constexpr double kAbove0 = std::numeric_limits<double>::denorm_min();  ///< the least number above 0

 private:
  friend class JsonText;
  /// A list of objects.
  struct List {
    void* written;     // a value of the JSON library, which no header includes
    const void* read;  // likewise
    std::string where;
    std::size_t size;  // of one that is read

    JsonObject at(std::size_t index) const;
    JsonObject append() const;
  };

  explicit JsonObject(void* written) : written_(written) {}
  JsonObject(const void* read, std::string where);
  List list_of(const char* key);
  std::size_t read_integer(const char* key, std::size_t minimum, std::size_t maximum) const;

  void* written_ = nullptr;     // a value of the JSON library
  const void* read_ = nullptr;  // likewise
  std::string where_;           // the file, and the place in it
};

/// A text of JSON: one object, or where it is read a list of objects.
class JsonText {
 public:
  /// Begins a text that is written.
  JsonText();
  /// Parses a text. @param name stands for the file in errors. @throws DataError if it is no JSON.
  JsonText(const std::string& text, std::string name);
  ~JsonText();
  JsonText(JsonText&&) noexcept;
  JsonText& operator=(JsonText&&) = delete;

  /// Returns the object that the text is. @throws DataError if it is none.
  JsonObject object();
  bool is_list() const;
  /// Reads a list, as JsonObject::list. @param kind names its values in errors: "row".
  template <class T, class Visit>
  void read_list(const char* kind, std::vector<T>& values, const Visit& visit) const {
    const JsonObject::List all = list(kind);
    for (std::size_t i = 0; i < all.size; ++i) visit(all.at(i), values.emplace_back());
  }
  /// Returns what has been written. @param indent of a level; below 0: all on one line.
  std::string text(int indent = -1) const;

 private:
  struct Values;
  JsonObject::List list(const char* kind) const;

  std::unique_ptr<Values> values_;
  std::string name_;
};

}  // namespace dragonn
