// SPDX-License-Identifier: MIT
#include <charconv>
#include <cstdint>
#include <string>
#include <variant>

#include <nlohmann/json.hpp>

#include "report/bandwidth.h"
#include "report/outputs.h"

namespace dragonn::report {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const std::optional<double>& number) {
  return number ? Json(*number) : Json(nullptr);
}

Json to_json(const CellValue& value) {
  if (const auto* number = std::get_if<std::optional<double>>(&value)) return to_json(*number);
  const auto& text = std::get<std::string>(value);
  return text.empty() ? Json(nullptr) : Json(text);
}

Json to_json(const std::optional<Spread>& spread) {
  if (!spread) return nullptr;
  return {{"mean", spread->mean},
          {"low", spread->low},
          {"high", spread->high},
          {"count", spread->count},
          {"ci95", to_json(spread->ci95)}};
}

/// Returns a seed as the number that it is.
Json seed_of(const Run& run) {
  const std::string text = run.setting("seed");
  std::int64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  return error == std::errc() && end == text.data() + text.size() ? Json(seed) : Json(nullptr);
}

Json run_object(const Comparison& comparison, const Group& group, std::size_t index) {
  Json object{{"kind", "run"}};
  for (const Cell& cell : run_cells(comparison, group, index)) object[cell.column] = to_json(cell.value);
  object["seed"] = seed_of(group.runs[index]);
  return object;
}

Json group_object(const Comparison& comparison, const Group& group) {
  Json runs = Json::array(), seeds = Json::array();
  for (const Run& run : group.runs) {
    runs.push_back(run.name);
    seeds.push_back(seed_of(run));
  }
  Json object{
      {"kind", "group"}, {"group", group.label}, {"runs", runs}, {"seeds", seeds}, {"is_dense", group.is_dense}};
  const GroupCells cells = group_cells(comparison, group);
  for (const Cell& cell : cells.shared) object[cell.column] = to_json(cell.value);
  for (const SpreadCell& cell : cells.numbers) object[cell.column] = to_json(cell.spread);
  const auto crossing = break_even(comparison, group);
  object["pays"] = crossing ? Json(kPaysNames[static_cast<std::size_t>(crossing->pays)]) : Json(nullptr);
  object["break_even_gbps"] = crossing && crossing->gbps > 0 ? Json(crossing->gbps) : Json(nullptr);
  return object;
}

}  // namespace

std::string comparison_json(const Comparison& comparison) {
  Json objects = Json::array();
  for (const Group& group : comparison.groups) {
    objects.push_back(group_object(comparison, group));
    for (std::size_t i = 0; i < group.runs.size(); ++i) objects.push_back(run_object(comparison, group, i));
  }
  return objects.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dragonn::report
