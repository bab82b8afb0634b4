// SPDX-License-Identifier: MIT
/// The JSON of profiles and tensor choices (docs/formats.md): written, read and checked in one place.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
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

ParsedJson parse(const std::string& text, const std::string& name) {
  try {
    return ParsedJson::parse(text);
  } catch (const ParsedJson::exception& error) {
    throw DataError(fmt::format("{}: no JSON: {}", name, excerpt(error.what(), 300)));
  }
}

/// Reads an object of a file. Errors name the file, the object and the key.
class Reader {
 public:
  Reader(const ParsedJson& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) throw DataError(fmt::format("{}: expected an object", where_));
  }

  double number(const char* key, double minimum, const char* expected) const {
    const ParsedJson& value = find(key);
    if (value.is_number() && value.get<double>() >= minimum) return value.get<double>();
    fail(key, expected);
  }
  double seconds(const char* key) const { return number(key, 0, "number of at least 0"); }
  /// Expects a list of so many times.
  std::vector<double> all_seconds(const char* key, std::size_t count) const {
    const ParsedJson& list = find(key);
    const auto is_time = [](const ParsedJson& value) { return value.is_number() && value.get<double>() >= 0; };
    if (list.is_array() && list.size() == count && std::ranges::all_of(list, is_time))
      return list.get<std::vector<double>>();
    fail(key, fmt::format("list of {} numbers of at least 0", count));
  }
  double positive(const char* key) const { return number(key, kAnyPositive, "number above 0"); }
  std::size_t count(const char* key, std::size_t minimum, std::size_t maximum) const {
    const ParsedJson& value = find(key);
    const std::size_t number = value.is_number_unsigned() ? value.get<std::size_t>() : 0;
    if (value.is_number_unsigned() && number >= minimum && number <= maximum) return number;
    fail(key, fmt::format("integer in [{}, {}]", minimum, maximum));
  }
  int small_count(const char* key) const { return static_cast<int>(count(key, 1, 1 << 20)); }
  bool flag(const char* key) const {
    const ParsedJson& value = find(key);
    if (value.is_boolean()) return value.get<bool>();
    fail(key, "true | false");
  }
  std::string text(const char* key) const {
    const ParsedJson& value = find(key);
    if (value.is_string()) return value.get<std::string>();
    fail(key, "string");
  }
  std::string one_of(const char* key, const std::vector<std::string>& valid) const {
    const ParsedJson& value = find(key);
    if (value.is_string() && std::ranges::count(valid, value.get<std::string>())) return value.get<std::string>();
    fail(key, fmt::format("{}", fmt::join(valid, " | ")));
  }
  /// Expects a text that must be this one; or a number, for the version.
  void expect(const char* key, const ParsedJson& valid) const {
    if (find(key) != valid) fail(key, valid.dump());
  }
  Reader object(const char* key) const { return {find(key), fmt::format("{}: {}", where_, key)}; }
  bool contains(const char* key) const { return object_.contains(key); }
  /// Calls `read(Reader)` for every object of a list.
  template <class Read>
  void for_each(const char* key, const Read& read) const {
    const ParsedJson& list = find(key);
    if (!list.is_array()) fail(key, "list");
    read_list(list, fmt::format("{}: {}", where_, key), read);
  }
  template <class Read>
  static void read_list(const ParsedJson& list, const std::string& where, const Read& read) {
    for (std::size_t i = 0; i < list.size(); ++i) read(Reader(list[i], fmt::format("{} {}", where, i)));
  }

 private:
  const ParsedJson& find(const char* key) const {
    static const ParsedJson absent;
    const auto found = object_.find(key);
    return found == object_.end() ? absent : *found;
  }
  [[noreturn]] void fail(const char* key, const std::string& expected) const {
    const ParsedJson& value = find(key);
    std::string seen = "is missing";
    // A list or an object may be as long and as deep as its file.
    if (contains(key))
      seen = value.is_structured() ? fmt::format("is an {}", value.type_name()) : "= " + excerpt(value.dump());
    throw DataError(fmt::format("{}: {} {}: expected {}", where_, key, seen, expected));
  }

  const ParsedJson& object_;
  std::string where_;
};

Json row_json(const ProfileRow& row) {
  Json json{{"version", kVersion},
            {"device", row.key.device},
            {"sparsifier", row.key.sparsifier},
            {"memory", row.key.memory},
            {"decode", row.key.decode},
            {"density", row.key.density},
            {"ranks", row.key.ranks},
            {"threads", row.key.threads},
            {"numel", row.numel},
            {"runs", row.runs},
            {"encode_seconds", row.encode_seconds},
            {"decode_seconds", row.decode_seconds},
            {"dense_seconds", row.dense_seconds}};
  if (row.coding_seconds) json["coding_seconds"] = *row.coding_seconds;
  return json;
}

ProfileRow read_row(const Reader& row) {
  row.expect("version", kVersion);
  const std::string device = row.one_of("device", {"cpu", "cuda"});
  return {
      .key = {.sparsifier = row.text("sparsifier"),
              .memory = row.text("memory"),
              .decode = row.text("decode"),
              .density = row.positive("density"),
              .ranks = row.small_count("ranks"),
              .threads = row.small_count("threads"),
              .device = device},
      .numel = row.count("numel", 1, std::numeric_limits<std::uint32_t>::max()),
      .runs = row.small_count("runs"),
      .encode_seconds = row.seconds("encode_seconds"),
      .decode_seconds = row.seconds("decode_seconds"),
      .dense_seconds = row.contains("dense_seconds") ? row.seconds("dense_seconds") : 0,
      .coding_seconds = row.contains("coding_seconds") ? std::optional(row.seconds("coding_seconds")) : std::nullopt};
}

comm::NetworkModel read_network(const Reader& network) {
  return {.latency_seconds = network.seconds("latency_seconds"),
          .bytes_per_second = network.positive("bytes_per_second")};
}

Json cost_json(const std::string& tensor, const TensorCost& cost) {
  return {{"tensor", tensor},
          {"numel", cost.numel},
          {"full_seconds", cost.full_seconds},
          {"encode_seconds", cost.encode_seconds},
          {"decode_seconds", cost.decode_seconds},
          {"sparse_seconds", cost.sparse_seconds},
          {"group", cost.group},
          {"decision", cost.is_sparse ? "sparse" : "dense"}};
}

/// Reads a cost. Earlier versions had no groups: each tensor's times included its latencies.
TensorCost read_cost(const Reader& cost) {
  return {.numel = cost.count("numel", 1, std::numeric_limits<std::uint32_t>::max()),
          .full_seconds = cost.seconds("full_seconds"),
          .encode_seconds = cost.seconds("encode_seconds"),
          .decode_seconds = cost.seconds("decode_seconds"),
          .sparse_seconds = cost.seconds("sparse_seconds"),
          .group = cost.contains("group") ? cost.count("group", 0, std::numeric_limits<std::uint32_t>::max()) : 0,
          .is_sparse = cost.one_of("decision", {"sparse", "dense"}) == "sparse"};
}

Json group_json(const GroupCost& group) {
  return {{"full_seconds", group.full_seconds},
          {"sparse_seconds", group.sparse_seconds},
          {"always_dense", group.always_dense}};
}

GroupCost read_group(const Reader& group) {
  return {.full_seconds = group.seconds("full_seconds"),
          .sparse_seconds = group.seconds("sparse_seconds"),
          .always_dense = group.flag("always_dense")};
}

Json advice_json(const StepAdvice& advice) {
  Json json{{"faster", advice.sparse_is_faster() ? "sparse" : "dense"},
            {"dense_seconds", advice.dense_seconds},
            {"sparse_seconds", advice.sparse_seconds},
            {"ring_seconds", advice.ring_seconds},
            {"dense_overlaps", advice.dense_overlaps},
            {"sparse_overlaps", advice.sparse_overlaps}};
  const auto range = [](const SecondsRange& seconds) { return Json::array({seconds.low, seconds.high}); };
  if (!advice.sparse_range.is_exact()) json["sparse_range_seconds"] = range(advice.sparse_range);
  if (advice.first_steps > 0) {
    json["first_steps"] = advice.first_steps;
    json["first_range_seconds"] = range(advice.first_range);
  }
  if (advice.is_uncertain()) json["uncertain"] = true;
  if (!advice.dense_setting.empty()) json["dense_setting"] = advice.dense_setting;
  if (advice.break_even_gbps) json["break_even_gbps"] = *advice.break_even_gbps;
  if (advice.remedy.empty()) return json;
  json["remedy"] = advice.remedy;
  json["remedy_seconds"] = advice.remedy_seconds;
  return json;
}

SecondsRange read_range(const Reader& advice, const char* key) {
  const std::vector<double> ends = advice.all_seconds(key, 2);
  return {ends[0], ends[1]};
}

StepAdvice read_advice(const Reader& advice) {
  StepAdvice read{.dense_seconds = advice.seconds("dense_seconds"),
                  .dense_setting = advice.contains("dense_setting") ? advice.text("dense_setting") : "",
                  .ring_seconds = advice.seconds(advice.contains("ring_seconds") ? "ring_seconds" : "dense_seconds"),
                  .sparse_seconds = advice.seconds("sparse_seconds"),
                  .dense_overlaps = advice.flag("dense_overlaps"),
                  .sparse_overlaps = advice.flag("sparse_overlaps")};
  read.sparse_range = {read.sparse_seconds, read.sparse_seconds};
  if (advice.contains("sparse_range_seconds")) read.sparse_range = read_range(advice, "sparse_range_seconds");
  if (advice.contains("first_steps")) {
    read.first_steps = advice.count("first_steps", 1, std::numeric_limits<std::uint32_t>::max());
    read.first_range = read_range(advice, "first_range_seconds");
  }
  if (advice.contains("break_even_gbps")) read.break_even_gbps = advice.positive("break_even_gbps");
  if (!advice.contains("remedy")) return read;
  read.remedy = advice.text("remedy");
  read.remedy_seconds = advice.seconds("remedy_seconds");
  return read;
}

Json rows_json(const std::vector<ProfileRow>& rows) {
  Json list = Json::array();
  for (const ProfileRow& row : rows) list.push_back(row_json(row));
  return list;
}

}  // namespace

std::string to_json(const ProfileRow& row) {
  return row_json(row).dump();
}

Profile parse_profile(const std::string& text, const std::string& name) {
  const ParsedJson json = parse(text, name);
  Profile profile;
  const auto add = [&](const Reader& row) { profile.rows.push_back(read_row(row)); };
  if (json.is_array()) {
    Reader::read_list(json, fmt::format("{}: row", name), add);
    return profile;
  }
  const Reader run(json, name);
  run.expect("version", kVersion);
  run.for_each("profile", add);
  if (run.contains("network")) profile.network = read_network(run.object("network"));
  if (run.contains("backward_seconds")) profile.backward_seconds = run.seconds("backward_seconds");
  return profile;
}

std::string to_json(const TensorSelection& selection) {
  Json decisions = Json::array();
  for (const DensityCosts& costs : selection.densities) {
    Json tensors = Json::array();
    for (std::size_t i = 0; i < costs.tensors.size(); ++i)
      tensors.push_back(cost_json(selection.tensors[i], costs.tensors[i]));
    Json groups = Json::array();
    for (const GroupCost& group : costs.groups) groups.push_back(group_json(group));
    decisions.push_back({{"density", costs.density}, {"groups", std::move(groups)}, {"tensors", std::move(tensors)}});
  }
  Json json{{"version", kVersion},
            {"ranks", selection.ranks},
            {"network",
             {{"source", selection.network_source},
              {"latency_seconds", selection.network.latency_seconds},
              {"bytes_per_second", selection.network.bytes_per_second}}},
            {"profile_source", selection.profile_source},
            {"profile", rows_json(selection.rows)},
            {"decisions", std::move(decisions)}};
  if (selection.backward_seconds) json["backward_seconds"] = *selection.backward_seconds;
  if (selection.advice) json["advice"] = advice_json(*selection.advice);
  return json.dump(1) + "\n";
}

TensorSelection parse_selection(const std::string& text, const std::string& name) {
  const ParsedJson json = parse(text, name);
  const Reader run(json, name);
  run.expect("version", kVersion);
  TensorSelection selection;
  selection.ranks = run.small_count("ranks");
  selection.network = read_network(run.object("network"));
  selection.network_source = run.object("network").text("source");
  selection.profile_source = run.text("profile_source");
  run.for_each("profile", [&](const Reader& row) { selection.rows.push_back(read_row(row)); });
  if (run.contains("backward_seconds")) selection.backward_seconds = run.seconds("backward_seconds");
  if (run.contains("advice")) selection.advice = read_advice(run.object("advice"));
  run.for_each("decisions", [&](const Reader& decision) {
    const bool first = selection.densities.empty();
    DensityCosts& costs = selection.densities.emplace_back(DensityCosts{.density = decision.positive("density")});
    if (decision.contains("groups")) {
      decision.for_each("groups", [&](const Reader& group) { costs.groups.push_back(read_group(group)); });
    }
    decision.for_each("tensors", [&](const Reader& tensor) {
      if (first) selection.tensors.push_back(tensor.text("tensor"));
      costs.tensors.push_back(read_cost(tensor));
    });
    if (costs.tensors.size() == selection.tensors.size()) return;
    throw DataError(fmt::format("{}: density {} has {} tensors: expected {}", name, costs.density, costs.tensors.size(),
                                selection.tensors.size()));
  });
  return selection;
}

}  // namespace dragonn::trainer
