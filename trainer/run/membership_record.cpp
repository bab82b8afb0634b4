// SPDX-License-Identifier: MIT
#include "trainer/run/membership_record.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "trainer/metrics/event_file.h"

namespace dragonn::trainer {
namespace {

using Json = nlohmann::ordered_json;

std::vector<int> difference(const std::vector<int>& from, const std::vector<int>& these) {
  std::vector<int> others;
  std::ranges::set_difference(from, these, std::back_inserter(others));
  return others;
}

/// @throws nlohmann::json::exception.
MembershipRecord parse(const std::string& line) {
  const Json json = Json::parse(line);
  MembershipRecord record;
  json.at("generation").get_to(record.plan.number);
  json.at("place").get_to(record.plan.place);
  json.at("step").get_to(record.step);
  json.at("members").get_to(record.plan.members);
  json.at("why").get_to(record.why);
  json.at("parameters_hash").get_to(record.parameters_hash);
  if (json.contains("resumed")) json.at("resumed").get_to(record.resumed);
  return record;
}

}  // namespace

void append_membership(const std::filesystem::path& path, const MembershipRecord& record) {
  Json json{{"generation", record.plan.number},
            {"step", record.step},
            {"place", record.plan.place},
            {"members", record.plan.members},
            {"joined", difference(record.plan.members, record.before)},
            {"left", difference(record.before, record.plan.members)},
            {"why", record.why},
            {"parameters_hash", record.parameters_hash}};
  if (!record.resumed.empty()) json["resumed"] = record.resumed;
  std::ofstream file(path, std::ios::app);
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  append_flushed(file, path, json.dump(-1, ' ', false, replace) + '\n');
}

std::vector<MembershipRecord> read_membership(const std::filesystem::path& path) {
  std::istringstream lines(read_text_file(path));
  std::vector<MembershipRecord> records;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    try {
      MembershipRecord record = parse(line);
      // Nobody went beyond the place at which an earlier generation began: it failed before its beginning counted.
      while (!records.empty() && records.back().plan.place >= record.plan.place) records.pop_back();
      records.push_back(std::move(record));
    } catch (const nlohmann::json::exception&) {
      throw DataError(fmt::format("{}:{}: no line of a membership", path.string(), number));
    }
    const std::vector<int>& members = records.back().plan.members;
    if (members.empty() || members.front() < 0 || !std::ranges::is_sorted(members, std::less_equal<>()))
      throw DataError(fmt::format("{}:{}: members are not ids that ascend", path.string(), number));
  }
  if (records.empty()) throw DataError(fmt::format("{}: no generation has begun", path.string()));
  return records;
}

}  // namespace dragonn::trainer
