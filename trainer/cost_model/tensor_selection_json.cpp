// SPDX-License-Identifier: MIT
/// The JSON of profiles and tensor choices (docs/formats.md): every key is named once, for writing and for reading.
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"
#include "core/json_object.h"
#include "trainer/cost_model/tensor_selection.h"

namespace dragonn::trainer {
namespace {

using Object = JsonObject;

constexpr std::size_t kVersion = 1;
constexpr double kAnyPositive = JsonObject::kAbove0;

void visit_range(Object& file, const char* key, SecondsRange& range) {
  file.pair(key, range.low, range.high);
}

void visit_optional(Object& file, const char* key, std::optional<double>& value, double minimum = 0) {
  if (!file.has(key, value.has_value())) return;
  if (file.reads()) value.emplace();
  file.field(key, *value, minimum);
}

// The keys of each object, in the order in which they are written.

void visit_row(Object file, ProfileRow& row) {
  file.version(kVersion);
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
  visit_optional(file, "coding_seconds", row.coding_seconds);
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
    visit_range(file, "sparse_range_seconds", advice.sparse_range);
  if (file.has("first_steps", advice.first_steps > 0)) {
    file.field("first_steps", advice.first_steps, 1);
    visit_range(file, "first_range_seconds", advice.first_range);
  }
  if (advice.is_uncertain()) file.write("uncertain", true);
  if (file.has("dense_setting", !advice.dense_setting.empty())) file.field("dense_setting", advice.dense_setting);
  visit_optional(file, "break_even_gbps", advice.break_even_gbps, kAnyPositive);
  if (file.has("steps_per_exchange", advice.steps_per_exchange > 1)) {
    file.field("steps_per_exchange", advice.steps_per_exchange, 1);
    visit_optional(file, "round_gbps", advice.round_gbps, kAnyPositive);
  }
  if (!file.has("remedy", !advice.remedy.empty())) return;
  file.field("remedy", advice.remedy);
  file.field("remedy_seconds", advice.remedy_seconds);
}

void visit_selection(Object file, TensorSelection& selection) {
  file.version(kVersion);
  file.field("ranks", selection.ranks);
  if (file.has("workers_per_node", selection.workers_per_node > 1))
    file.field("workers_per_node", selection.workers_per_node);
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
  visit_optional(file, "backward_seconds", selection.backward_seconds);
  if (!file.has("advice", selection.advice.has_value())) return;
  if (file.reads()) selection.advice.emplace();
  visit_advice(file.object("advice"), *selection.advice);
}

}  // namespace

std::string to_json(const ProfileRow& row) {
  ProfileRow written = row;
  JsonText json;
  visit_row(json.object(), written);
  return json.text();
}

Profile parse_profile(const std::string& text, const std::string& name) {
  JsonText json(text, name);
  Profile profile;
  if (json.is_list()) {
    json.read_list("row", profile.rows, visit_row);
    return profile;
  }
  Object run = json.object();
  run.version(kVersion);
  run.list("profile", profile.rows, visit_row);
  if (run.has("network")) {
    Object network = run.object("network");
    visit_network(network, profile.network.emplace());
  }
  visit_optional(run, "backward_seconds", profile.backward_seconds);
  return profile;
}

std::string to_json(const TensorSelection& selection) {
  TensorSelection written = selection;
  JsonText json;
  visit_selection(json.object(), written);
  return json.text(1) + "\n";
}

TensorSelection parse_selection(const std::string& text, const std::string& name) {
  JsonText json(text, name);
  TensorSelection selection;
  visit_selection(json.object(), selection);
  for (const DensityCosts& costs : selection.densities) {
    if (costs.tensors.size() == selection.tensors.size()) continue;
    throw DataError(fmt::format("{}: density {} has {} tensors: expected {}", name, costs.density, costs.tensors.size(),
                                selection.tensors.size()));
  }
  return selection;
}

}  // namespace dragonn::trainer
