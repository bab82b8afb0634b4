// SPDX-License-Identifier: MIT
/// The JSON of profiles and tensor choices (docs/formats.md): every key is named once, for writing and for reading.
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/printable.h"
#include "trainer/cost_model/tensor_selection.h"

namespace dragonn::trainer {
namespace {

using Json = nlohmann::ordered_json;  // as it is written
using ParsedJson = nlohmann::json;    // finds keys in a time that does not grow with their number

constexpr std::size_t kVersion = 1;
constexpr double kAnyPositive = std::numeric_limits<double>::denorm_min();

bool is_number(const ParsedJson& value, double minimum) {
  return value.is_number() && value.get<double>() >= minimum;
}

/// An object of a file that is written, or read. Errors of reading name the file, the object and the key.
class Object {
 public:
  explicit Object(Json& written) : written_(&written) {}
  Object(const ParsedJson& read, std::string where) : read_(&read), where_(std::move(where)) {
    if (!read.is_object()) throw DataError(fmt::format("{}: expected an object", where_));
  }

  bool reads() const { return read_ != nullptr; }
  void version() {
    if (write("version", kVersion)) return;
    if (find("version") != ParsedJson(kVersion)) fail("version", fmt::format("{}", kVersion));
  }
  void field(const char* key, double& value, double minimum = 0) {
    if (write(key, value)) return;
    if (!is_number(find(key), minimum)) fail(key, minimum > 0 ? "number above 0" : "number of at least 0");
    value = find(key).get<double>();
  }
  /// A small number, as of ranks.
  void field(const char* key, int& value) { integer(key, value, 1, 1 << 20); }
  void field(const char* key, std::size_t& value, std::size_t minimum) {
    integer(key, value, minimum, std::numeric_limits<std::uint32_t>::max());
  }
  void field(const char* key, bool& value) {
    if (write(key, value)) return;
    if (!find(key).is_boolean()) fail(key, "true | false");
    value = find(key).get<bool>();
  }
  void field(const char* key, std::string& value) {
    if (write(key, value)) return;
    if (!find(key).is_string()) fail(key, "string");
    value = find(key).get<std::string>();
  }
  void field(const char* key, std::optional<double>& value, double minimum = 0) {
    if (!has(key, value.has_value())) return;
    if (reads()) value.emplace();
    field(key, *value, minimum);
  }
  void field(const char* key, SecondsRange& range) {
    if (write(key, std::vector{range.low, range.high})) return;
    const ParsedJson& list = find(key);
    const bool is_range = list.is_array() && list.size() == 2 && is_number(list[0], 0) && is_number(list[1], 0);
    if (!is_range) fail(key, "list of 2 numbers of at least 0");
    range = {list[0].get<double>(), list[1].get<double>()};
  }
  void one_of(const char* key, std::string& value, const char* first, const char* second) {
    if (write(key, value)) return;
    if (find(key) != first && find(key) != second) fail(key, fmt::format("{} | {}", first, second));
    value = find(key).get<std::string>();
  }
  /// Writes a key, and returns true; returns false where it is to be read. What is not read follows from other keys.
  template <class T>
  bool write(const char* key, const T& value) {
    if (!reads()) (*written_)[key] = value;
    return !reads();
  }
  /// Returns whether the object has the key, or is to have it.
  bool has(const char* key, bool is_written = true) const { return reads() ? read_->contains(key) : is_written; }
  Object object(const char* key) {
    return reads() ? Object(find(key), fmt::format("{}: {}", where_, key)) : Object((*written_)[key]);
  }
  /// @param visit is called with the object of each value, and the value.
  template <class T, class Visit>
  void list(const char* key, std::vector<T>& values, const Visit& visit) {
    if (reads() && !find(key).is_array()) fail(key, "list");
    if (reads()) return read_list(find(key), fmt::format("{}: {}", where_, key), values, visit);
    Json& list = (*written_)[key] = Json::array();
    for (T& value : values) {
      list.emplace_back();
      visit(Object(list.back()), value);
    }
  }
  template <class T, class Visit>
  static void read_list(const ParsedJson& list, const std::string& where, std::vector<T>& values, const Visit& visit) {
    for (std::size_t i = 0; i < list.size(); ++i)
      visit(Object(list[i], fmt::format("{} {}", where, i)), values.emplace_back());
  }

 private:
  template <class T>
  void integer(const char* key, T& value, std::size_t minimum, std::size_t maximum) {
    if (write(key, value)) return;
    const std::size_t number = find(key).is_number_unsigned() ? find(key).get<std::size_t>() : 0;
    if (!find(key).is_number_unsigned() || number < minimum || number > maximum)
      fail(key, fmt::format("integer in [{}, {}]", minimum, maximum));
    value = static_cast<T>(number);
  }
  const ParsedJson& find(const char* key) const {
    static const ParsedJson absent;
    const auto found = read_->find(key);
    return found == read_->end() ? absent : *found;
  }
  [[noreturn]] void fail(const char* key, const std::string& expected) const {
    const ParsedJson& value = find(key);
    std::string seen = "is missing";
    // A list or an object may be as long and as deep as its file.
    if (has(key))
      seen = value.is_structured() ? fmt::format("is an {}", value.type_name()) : "= " + excerpt(value.dump());
    throw DataError(fmt::format("{}: {} {}: expected {}", where_, key, seen, expected));
  }

  Json* written_ = nullptr;
  const ParsedJson* read_ = nullptr;
  std::string where_;
};

// The keys of each object, in the order in which they are written.

void visit_row(Object file, ProfileRow& row) {
  file.version();
  file.one_of("device", row.key.device, "cpu", "cuda");
  file.field("sparsifier", row.key.sparsifier);
  file.field("memory", row.key.memory);
  file.field("decode", row.key.decode);
  file.field("density", row.key.density, kAnyPositive);
  file.field("ranks", row.key.ranks);
  file.field("threads", row.key.threads);
  file.field("numel", row.numel, 1);
  file.field("runs", row.runs);
  file.field("encode_seconds", row.encode_seconds);
  file.field("decode_seconds", row.decode_seconds);
  if (file.has("dense_seconds")) file.field("dense_seconds", row.dense_seconds);
  file.field("coding_seconds", row.coding_seconds);
}

void visit_network(Object& file, comm::NetworkModel& network) {
  file.field("latency_seconds", network.latency_seconds);
  file.field("bytes_per_second", network.bytes_per_second, kAnyPositive);
}

/// Earlier versions had no groups: each tensor's times included its latencies.
void visit_cost(Object& file, TensorCost& cost) {
  file.field("numel", cost.numel, 1);
  file.field("full_seconds", cost.full_seconds);
  file.field("encode_seconds", cost.encode_seconds);
  file.field("decode_seconds", cost.decode_seconds);
  file.field("sparse_seconds", cost.sparse_seconds);
  if (file.has("group")) file.field("group", cost.group, 0);
  std::string decision = cost.is_sparse ? "sparse" : "dense";
  file.one_of("decision", decision, "sparse", "dense");
  cost.is_sparse = decision == "sparse";
}

void visit_group(Object file, GroupCost& group) {
  file.field("full_seconds", group.full_seconds);
  file.field("sparse_seconds", group.sparse_seconds);
  file.field("always_dense", group.always_dense);
}

void visit_advice(Object file, StepAdvice& advice) {
  file.write("faster", advice.sparse_is_faster() ? "sparse" : "dense");
  file.field("dense_seconds", advice.dense_seconds);
  file.field("sparse_seconds", advice.sparse_seconds);
  if (file.reads()) {  // unless the fields below say otherwise
    advice.ring_seconds = advice.dense_seconds;
    advice.sparse_range = {advice.sparse_seconds, advice.sparse_seconds};
  }
  if (file.has("ring_seconds")) file.field("ring_seconds", advice.ring_seconds);
  file.field("dense_overlaps", advice.dense_overlaps);
  file.field("sparse_overlaps", advice.sparse_overlaps);
  if (file.has("sparse_range_seconds", !advice.sparse_range.is_exact()))
    file.field("sparse_range_seconds", advice.sparse_range);
  if (file.has("first_steps", advice.first_steps > 0)) {
    file.field("first_steps", advice.first_steps, 1);
    file.field("first_range_seconds", advice.first_range);
  }
  if (advice.is_uncertain()) file.write("uncertain", true);
  if (file.has("dense_setting", !advice.dense_setting.empty())) file.field("dense_setting", advice.dense_setting);
  file.field("break_even_gbps", advice.break_even_gbps, kAnyPositive);
  if (file.has("steps_per_exchange", advice.steps_per_exchange > 1)) {
    file.field("steps_per_exchange", advice.steps_per_exchange, 1);
    file.field("round_gbps", advice.round_gbps, kAnyPositive);
  }
  if (!file.has("remedy", !advice.remedy.empty())) return;
  file.field("remedy", advice.remedy);
  file.field("remedy_seconds", advice.remedy_seconds);
}

void visit_selection(Object file, TensorSelection& selection) {
  file.version();
  file.field("ranks", selection.ranks);
  Object network = file.object("network");
  network.field("source", selection.network_source);
  visit_network(network, selection.network);
  file.field("profile_source", selection.profile_source);
  file.list("profile", selection.rows, visit_row);
  file.list("decisions", selection.densities, [&](Object decision, DensityCosts& costs) {
    decision.field("density", costs.density, kAnyPositive);
    if (decision.has("groups")) decision.list("groups", costs.groups, visit_group);
    std::vector<std::string> names = selection.tensors;
    std::size_t tensor = 0;
    decision.list("tensors", costs.tensors, [&](Object each, TensorCost& cost) {
      if (tensor == names.size()) names.emplace_back();
      each.field("tensor", names[tensor++]);
      visit_cost(each, cost);
    });
    if (selection.densities.size() == 1) selection.tensors = std::move(names);
  });
  file.field("backward_seconds", selection.backward_seconds);
  if (!file.has("advice", selection.advice.has_value())) return;
  if (file.reads()) selection.advice.emplace();
  visit_advice(file.object("advice"), *selection.advice);
}

ParsedJson parse(const std::string& text, const std::string& name) {
  try {
    return ParsedJson::parse(text);
  } catch (const ParsedJson::exception& error) {
    throw DataError(fmt::format("{}: no JSON: {}", name, excerpt(error.what(), 300)));
  }
}

}  // namespace

std::string to_json(const ProfileRow& row) {
  ProfileRow written = row;
  Json json;
  visit_row(Object(json), written);
  return json.dump();
}

Profile parse_profile(const std::string& text, const std::string& name) {
  const ParsedJson json = parse(text, name);
  Profile profile;
  if (json.is_array()) {
    Object::read_list(json, fmt::format("{}: row", name), profile.rows, visit_row);
    return profile;
  }
  Object run(json, name);
  run.version();
  run.list("profile", profile.rows, visit_row);
  if (run.has("network")) {
    Object network = run.object("network");
    visit_network(network, profile.network.emplace());
  }
  run.field("backward_seconds", profile.backward_seconds);
  return profile;
}

std::string to_json(const TensorSelection& selection) {
  TensorSelection written = selection;
  Json json;
  visit_selection(Object(json), written);
  return json.dump(1) + "\n";
}

TensorSelection parse_selection(const std::string& text, const std::string& name) {
  const ParsedJson json = parse(text, name);
  TensorSelection selection;
  visit_selection(Object(json, name), selection);
  for (const DensityCosts& costs : selection.densities) {
    if (costs.tensors.size() == selection.tensors.size()) continue;
    throw DataError(fmt::format("{}: density {} has {} tensors: expected {}", name, costs.density, costs.tensors.size(),
                                selection.tensors.size()));
  }
  return selection;
}

}  // namespace dragonn::trainer
