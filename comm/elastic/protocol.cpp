// SPDX-License-Identifier: MIT
#include "comm/elastic/protocol.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/printable.h"

namespace dragonn::comm {
namespace {

/// Takes words off the front of a line.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  std::string_view next() {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }
  std::uint64_t number() { return number_of(next()); }
  /// Returns a number; notes anything else.
  std::uint64_t number_of(std::string_view word) {
    std::uint64_t value = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
    is_good_ = is_good_ && status == std::errc() && end == word.data() + word.size();
    return value;
  }
  std::string rest() { return printable(std::exchange(rest_, {})); }
  void refuse_unless(bool holds) { is_good_ = is_good_ && holds; }
  /// Returns whether all words were as expected, and none is left.
  bool is_good() const { return is_good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool is_good_ = true;
};

template <class Line>
std::optional<Line> checked(const Words& words, Line line) {
  return words.is_good() ? std::optional(std::move(line)) : std::nullopt;
}

void read_members(std::string_view list, Words& words, CoordinatorLine& line) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    const std::string_view entry = list.substr(0, end);
    const std::size_t at = std::min(entry.find('@'), entry.size());
    const std::uint64_t id = words.number_of(entry.substr(0, at));
    const auto door = parse_address(entry.substr(std::min(at + 1, entry.size())));
    const bool ascends = line.plan.members.empty() || static_cast<int>(id) > line.plan.members.back();
    words.refuse_unless(door && ascends && id <= static_cast<std::uint64_t>(std::numeric_limits<int>::max()));
    line.plan.members.push_back(static_cast<int>(id));
    line.doors.push_back(door.value_or(Address{}));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  words.refuse_unless(!line.plan.members.empty());
}

}  // namespace

std::string MemberLine::text() const {
  switch (kind) {
    case Kind::kJoin:
      return fmt::format("join {} {}", place, config);
    case Kind::kBeat:
      return "beat";
    case Kind::kLeave:
      return fmt::format("leave {}", place);
    case Kind::kReport:
      return fmt::format("report {} {} {}", generation, place, one_line_message(why));
    case Kind::kFinish:
      return fmt::format("finish {}", place);
  }
  return "";
}

std::optional<MemberLine> MemberLine::parse(const std::string& line) {
  Words words(line);
  const std::string_view kind = words.next();
  if (kind == "beat") return checked(words, MemberLine{Kind::kBeat});
  const bool joins = kind == "join", leaves = kind == "leave";
  if (joins || leaves || kind == "finish") {
    MemberLine parsed{joins ? Kind::kJoin : leaves ? Kind::kLeave : Kind::kFinish, 0, words.number()};
    if (joins) parsed.config = words.number();
    return checked(words, parsed);
  }
  if (kind != "report") return std::nullopt;
  MemberLine report{Kind::kReport, words.number(), 0};
  report.place = words.number();
  report.why = words.rest();
  return checked(words, report);
}

std::string CoordinatorLine::text() const {
  const std::string reason = one_line_message(why);
  switch (kind) {
    case Kind::kBeat:
      return "beat";
    case Kind::kBye:
      return "bye";
    case Kind::kStop:
      return "stop";
    case Kind::kYield:
    case Kind::kEnd:
      return fmt::format("{} {} {}", kind == Kind::kEnd ? "end" : "yield", plan.number, reason);
    case Kind::kDrop:
      return fmt::format("drop {}", reason);
    case Kind::kForm:
      break;
  }
  std::vector<std::string> members;
  for (std::size_t rank = 0; rank < doors.size(); ++rank)
    members.push_back(fmt::format("{}@{}", plan.members[rank], doors[rank].text()));
  return fmt::format("form {} {} {} {} {} {} {}", plan.number, plan.place, plan.stops ? 1 : 0, run, member,
                     fmt::join(members, ","), reason);
}

std::optional<CoordinatorLine> CoordinatorLine::parse(const std::string& line) {
  Words words(line);
  const std::string_view kind = words.next();
  CoordinatorLine parsed;
  if (kind == "beat" || kind == "bye" || kind == "stop") {
    parsed.kind = kind == "bye" ? Kind::kBye : kind == "stop" ? Kind::kStop : Kind::kBeat;
    return checked(words, parsed);
  }
  if (kind == "end" || kind == "yield") {
    parsed.kind = kind == "end" ? Kind::kEnd : Kind::kYield;
    parsed.plan.number = words.number();
  } else if (kind == "drop") {
    parsed.kind = Kind::kDrop;
  } else if (kind == "form") {
    parsed.kind = Kind::kForm;
    parsed.plan.number = words.number();
    parsed.plan.place = words.number();
    const std::uint64_t stops = words.number();
    words.refuse_unless(stops <= 1);
    parsed.plan.stops = stops == 1;
    parsed.run = words.number();
    const std::uint64_t member = words.number();
    read_members(words.next(), words, parsed);
    words.refuse_unless(
        std::ranges::count(parsed.plan.members, member, [](int id) { return static_cast<std::uint64_t>(id); }) == 1);
    parsed.member = static_cast<int>(member);
  } else {
    return std::nullopt;
  }
  parsed.why = words.rest();
  return checked(words, parsed);
}

}  // namespace dragonn::comm
