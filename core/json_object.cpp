// SPDX-License-Identifier: MIT
#include "core/json_object.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "core/settings.h"

namespace dragonn {
namespace {

bool is_number(const JsonObject::Parsed& value, double minimum) {
  return value.is_number() && value.get<double>() >= minimum;
}

}  // namespace

JsonObject::JsonObject(const Parsed& read, std::string where) : read_(&read), where_(std::move(where)) {
  if (!read.is_object()) throw DataError(fmt::format("{}: expected an object", where_));
}

JsonObject::Parsed JsonObject::parse(const std::string& text, const std::string& name) {
  try {
    return Parsed::parse(text);
  } catch (const Parsed::exception& error) {
    throw DataError(fmt::format("{}: no JSON: {}", name, excerpt(error.what(), 300)));
  }
}

void JsonObject::version(std::size_t number) {
  if (write("version", number)) return;
  if (find("version") != Parsed(number)) fail("version", fmt::format("{}", number));
}

void JsonObject::field(const char* key, double& value, double minimum) {
  if (write(key, value)) return;
  if (!is_number(find(key), minimum)) fail(key, minimum > 0 ? "number above 0" : "number of at least 0");
  value = find(key).get<double>();
}

void JsonObject::field(const char* key, std::size_t& value, std::size_t minimum) {
  integer(key, value, minimum, std::numeric_limits<std::uint32_t>::max());
}

void JsonObject::field(const char* key, bool& value) {
  if (write(key, value)) return;
  if (!find(key).is_boolean()) fail(key, "true | false");
  value = find(key).get<bool>();
}

void JsonObject::field(const char* key, std::string& value) {
  if (write(key, value)) return;
  if (!find(key).is_string()) fail(key, "string");
  value = find(key).get<std::string>();
}

void JsonObject::pair(const char* key, double& first, double& second) {
  if (write(key, std::vector{first, second})) return;
  const Parsed& list = find(key);
  const bool is_pair = list.is_array() && list.size() == 2 && is_number(list[0], 0) && is_number(list[1], 0);
  if (!is_pair) fail(key, "list of 2 numbers of at least 0");
  first = list[0].get<double>();
  second = list[1].get<double>();
}

void JsonObject::one_of(const char* key, std::string& value, const char* first, const char* second) {
  if (write(key, value)) return;
  if (find(key) != first && find(key) != second) fail(key, fmt::format("{} | {}", first, second));
  value = find(key).get<std::string>();
}

void JsonObject::allow_only(const std::vector<std::string>& keys) const {
  if (!reads()) return;
  for (const auto& [key, value] : read_->items()) {
    if (std::ranges::find(keys, key) == keys.end())
      throw DataError(fmt::format("{}: {}", where_, unknown_name_message("key", key, keys)));
  }
}

JsonObject JsonObject::object(const char* key) {
  return reads() ? JsonObject(find(key), fmt::format("{}: {}", where_, key)) : JsonObject((*written_)[key]);
}

void JsonObject::fail(const char* key, const std::string& expected) const {
  const Parsed& value = find(key);
  std::string seen = "is missing";
  // A list or an object may be as long and as deep as its file.
  if (has(key))
    seen = value.is_structured() ? fmt::format("is an {}", value.type_name()) : "= " + excerpt(value.dump());
  throw DataError(fmt::format("{}: {} {}: expected {}", where_, key, seen, expected));
}

std::size_t JsonObject::read_integer(const char* key, std::size_t minimum, std::size_t maximum) const {
  const Parsed& value = find(key);
  const std::size_t number = value.is_number_unsigned() ? value.get<std::size_t>() : 0;
  if (!value.is_number_unsigned() || number < minimum || number > maximum)
    fail(key, fmt::format("integer in [{}, {}]", minimum, maximum));
  return number;
}

const JsonObject::Parsed& JsonObject::array(const char* key) const {
  if (!find(key).is_array()) fail(key, "list");
  return find(key);
}

const JsonObject::Parsed& JsonObject::find(const char* key) const {
  static const Parsed absent;
  const auto found = read_->find(key);
  return found == read_->end() ? absent : *found;
}

}  // namespace dragonn
