// SPDX-License-Identifier: MIT
#include "core/json_object.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/printable.h"
#include "core/settings.h"

namespace dragonn {
namespace {

using Written = nlohmann::ordered_json;
using Parsed = nlohmann::json;  // finds keys in a time that does not grow with their number

Written& written(void* value) {
  return *static_cast<Written*>(value);
}
const Parsed& parsed(const void* value) {
  return *static_cast<const Parsed*>(value);
}

const Parsed& find(const void* object, const char* key) {
  static const Parsed absent;
  const auto found = parsed(object).find(key);
  return found == parsed(object).end() ? absent : *found;
}

bool is_number(const Parsed& value, double minimum) {
  return value.is_number() && value.get<double>() >= minimum;
}

template <class T>
bool write_to(void* object, const char* key, const T& value) {
  if (object != nullptr) written(object)[key] = value;
  return object != nullptr;
}

}  // namespace

JsonObject::JsonObject(const void* read, std::string where) : read_(read), where_(std::move(where)) {
  if (!parsed(read).is_object()) throw DataError(fmt::format("{}: expected an object", where_));
}

void JsonObject::version(std::size_t number) {
  if (write("version", number)) return;
  if (find(read_, "version") != Parsed(number)) fail("version", fmt::format("{}", number));
}

void JsonObject::field(const char* key, double& value, double minimum) {
  if (write(key, value)) return;
  const Parsed& found = find(read_, key);
  if (!is_number(found, minimum)) fail(key, minimum > 0 ? "number above 0" : "number of at least 0");
  value = found.get<double>();
}

void JsonObject::field(const char* key, int& value) {
  constexpr std::size_t kMost = 1 << 20;
  if (!write(key, static_cast<std::size_t>(value))) value = static_cast<int>(read_integer(key, 1, kMost));
}

void JsonObject::field(const char* key, std::size_t& value, std::size_t minimum) {
  if (!write(key, value)) value = read_integer(key, minimum, std::numeric_limits<std::uint32_t>::max());
}

void JsonObject::field(const char* key, bool& value) {
  if (write(key, value)) return;
  if (!find(read_, key).is_boolean()) fail(key, "true | false");
  value = find(read_, key).get<bool>();
}

void JsonObject::field(const char* key, std::string& value) {
  if (write(key, value)) return;
  if (!find(read_, key).is_string()) fail(key, "string");
  value = find(read_, key).get<std::string>();
}

void JsonObject::pair(const char* key, double& first, double& second) {
  if (write_to(written_, key, std::vector{first, second})) return;
  const Parsed& list = find(read_, key);
  const bool is_pair = list.is_array() && list.size() == 2 && is_number(list[0], 0) && is_number(list[1], 0);
  if (!is_pair) fail(key, "list of 2 numbers of at least 0");
  first = list[0].get<double>();
  second = list[1].get<double>();
}

void JsonObject::one_of(const char* key, std::string& value, const char* first, const char* second) {
  if (write(key, value)) return;
  const Parsed& found = find(read_, key);
  if (found != first && found != second) fail(key, fmt::format("{} | {}", first, second));
  value = found.get<std::string>();
}

bool JsonObject::write(const char* key, double value) {
  return write_to(written_, key, value);
}
bool JsonObject::write(const char* key, std::size_t value) {
  return write_to(written_, key, value);
}
bool JsonObject::write(const char* key, bool value) {
  return write_to(written_, key, value);
}
bool JsonObject::write(const char* key, const std::string& value) {
  return write_to(written_, key, value);
}

bool JsonObject::has(const char* key, bool is_written) const {
  return reads() ? parsed(read_).contains(key) : is_written;
}

void JsonObject::allow_only(const std::vector<std::string>& keys) const {
  if (!reads()) return;
  for (const auto& [key, value] : parsed(read_).items()) {
    if (std::ranges::find(keys, key) == keys.end())
      throw DataError(fmt::format("{}: {}", where_, unknown_name_message("key", key, keys)));
  }
}

JsonObject JsonObject::object(const char* key) {
  if (!reads()) return JsonObject(&written(written_)[key]);
  return {&find(read_, key), fmt::format("{}: {}", where_, key)};
}

JsonObject::List JsonObject::list_of(const char* key) {
  if (!reads()) {
    Written& list = written(written_)[key] = Written::array();
    return {&list, nullptr, "", 0};
  }
  const Parsed& list = find(read_, key);
  if (!list.is_array()) fail(key, "list");
  return {nullptr, &list, fmt::format("{}: {}", where_, key), list.size()};
}

JsonObject JsonObject::List::at(std::size_t index) const {
  return {&parsed(read)[index], fmt::format("{} {}", where, index)};
}

JsonObject JsonObject::List::append() const {
  return JsonObject(&::dragonn::written(written).emplace_back());
}

void JsonObject::fail(const char* key, const std::string& expected) const {
  const Parsed& value = find(read_, key);
  std::string seen = "is missing";
  // A list or an object may be as long and as deep as its file.
  if (has(key))
    seen = value.is_structured() ? fmt::format("is an {}", value.type_name()) : "= " + excerpt(value.dump());
  throw DataError(fmt::format("{}: {} {}: expected {}", where_, key, seen, expected));
}

std::size_t JsonObject::read_integer(const char* key, std::size_t minimum, std::size_t maximum) const {
  const Parsed& value = find(read_, key);
  const std::size_t number = value.is_number_unsigned() ? value.get<std::size_t>() : 0;
  if (!value.is_number_unsigned() || number < minimum || number > maximum)
    fail(key, fmt::format("integer in [{}, {}]", minimum, maximum));
  return number;
}

/// One of the two has a value.
struct JsonText::Values {
  Written written;
  Parsed parsed;
  bool reads = false;
};

JsonText::JsonText() : values_(std::make_unique<Values>()) {
  values_->written = Written::object();
}

JsonText::JsonText(const std::string& text, std::string name)
    : values_(std::make_unique<Values>()), name_(std::move(name)) {
  values_->reads = true;
  try {
    values_->parsed = Parsed::parse(text);
  } catch (const Parsed::exception& error) {
    throw DataError(fmt::format("{}: no JSON: {}", name_, excerpt(error.what(), 300)));
  }
}

JsonText::~JsonText() = default;
JsonText::JsonText(JsonText&&) noexcept = default;

JsonObject JsonText::object() {
  return values_->reads ? JsonObject(&values_->parsed, name_) : JsonObject(&values_->written);
}

bool JsonText::is_list() const {
  return values_->parsed.is_array();
}

JsonObject::List JsonText::list(const char* kind) const {
  return {nullptr, &values_->parsed, fmt::format("{}: {}", name_, kind), values_->parsed.size()};
}

std::string JsonText::text(int indent) const {
  return values_->written.dump(indent);
}

}  // namespace dragonn
