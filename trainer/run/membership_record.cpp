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
  if (json.contains("lost")) {
    for (const Json& loss : json.at("lost")) {
      LossRecord& lost = record.lost.emplace_back();
      loss.at("member").get_to(lost.loss.member);
      if (loss.contains("residual_l1"))
        lost.loss.mass = {loss.at("place").get<std::uint64_t>(), loss.at("residual_sum").get<double>(),
                          loss.at("residual_l1").get<double>()};
      if (loss.contains("restored_sum")) lost.restored_sum = loss.at("restored_sum").get<double>();
    }
  }
  if (json.contains("streams")) {
    for (const Json& stream : json.at("streams"))
      record.streams.push_back({stream.at("member").get<int>(), stream.at("donor").get<int>(),
                                stream.at("place").get<std::uint64_t>(), stream.at("rest_bytes").get<std::uint64_t>()});
  }
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
  for (const auto& [loss, restored_sum] : record.lost) {
    Json& lost = json["lost"].emplace_back(Json{{"member", loss.member}});
    if (loss.mass) {
      lost["place"] = loss.mass->place;
      lost["residual_sum"] = loss.mass->sum;
      lost["residual_l1"] = loss.mass->l1;
    }
    if (restored_sum) lost["restored_sum"] = *restored_sum;
  }
  for (const auto& [member, donor, place, rest] : record.streams)
    json["streams"].push_back(Json{{"member", member}, {"donor", donor}, {"place", place}, {"rest_bytes", rest}});
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
  for (MembershipRecord& record : records) record.plan.first = records.front().plan.members.size();
  return records;
}

}  // namespace dragonn::trainer
