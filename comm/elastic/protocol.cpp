// SPDX-License-Identifier: MIT
#include "comm/elastic/protocol.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
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
  double real() { return real_of(next()); }
  /// Returns a finite number; notes anything else.
  double real_of(std::string_view word) {
    double value = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
    is_good_ = is_good_ && status == std::errc() && end == word.data() + word.size() && std::isfinite(value);
    return value;
  }
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

/// Takes what is in front of `separator` off a text.
std::string_view take_until(char separator, std::string_view& text) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

std::string text_of(const std::vector<Loss>& lost) {
  std::vector<std::string> texts;
  for (const auto& [member, mass] : lost)
    texts.push_back(mass ? fmt::format("{}:{}:{}:{}", member, mass->place, mass->sum, mass->l1)
                         : fmt::format("{}", member));
  return texts.empty() ? "-" : fmt::format("{}", fmt::join(texts, ","));
}

void read_lost(std::string_view list, Words& words, CoordinatorLine& line) {
  if (list == "-") return;
  while (!list.empty()) {
    std::string_view entry = take_until(',', list);
    const std::uint64_t id = words.number_of(take_until(':', entry));
    words.refuse_unless(id <= static_cast<std::uint64_t>(std::numeric_limits<int>::max()));
    Loss& loss = line.lost.emplace_back(static_cast<int>(id));
    if (entry.empty()) continue;
    ResidualMass& mass = loss.mass.emplace();
    mass.place = words.number_of(take_until(':', entry));
    mass.sum = words.real_of(take_until(':', entry));
    mass.l1 = words.real_of(entry);
  }
}

/// Reads "ID@ADDRESS".
void read_member(std::string_view entry, Words& words, CoordinatorLine& line) {
  const std::size_t at = std::min(entry.find('@'), entry.size());
  const std::uint64_t id = words.number_of(entry.substr(0, at));
  const auto door = parse_address(entry.substr(std::min(at + 1, entry.size())));
  words.refuse_unless(door && id <= static_cast<std::uint64_t>(std::numeric_limits<int>::max()));
  line.member = static_cast<int>(id);
  line.doors.push_back(door.value_or(Address{}));
}

void read_members(std::string_view list, Words& words, CoordinatorLine& line) {
  while (!list.empty()) {
    read_member(take_until(',', list), words, line);
    words.refuse_unless(line.plan.members.empty() || line.member > line.plan.members.back());
    line.plan.members.push_back(line.member);
  }
  words.refuse_unless(!line.plan.members.empty());
}

}  // namespace

std::string MemberLine::text() const {
  switch (kind) {
    case Kind::kJoin:
      return fmt::format("join {} {}", place, config);
    case Kind::kBeat:
      return mass ? fmt::format("beat {} {} {}", mass->place, mass->sum, mass->l1) : "beat";
    case Kind::kLeave:
      return fmt::format("leave {}", place);
    case Kind::kReport:
      return fmt::format("report {} {} {}", generation, place, one_line_message(why));
    case Kind::kFinish:
      return fmt::format("finish {}", place);
    case Kind::kReady:
      return "ready";
    case Kind::kAgain:
      return fmt::format("again {}", place);
  }
  return "";
}

std::optional<MemberLine> MemberLine::parse(const std::string& line) {
  Words words(line);
  const std::string_view kind = words.next();
  if (kind == "beat") {
    MemberLine beat{Kind::kBeat};
    if (words.is_good()) return beat;
    ResidualMass& mass = beat.mass.emplace();
    mass.place = words.number();
    mass.sum = words.real();
    mass.l1 = words.real();
    return checked(words, beat);
  }
  if (kind == "ready") return checked(words, MemberLine{Kind::kReady});
  if (kind == "again") return checked(words, MemberLine{Kind::kAgain, 0, words.number()});
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
    case Kind::kFetch:
      return fmt::format("fetch {} {}", run, member);
    case Kind::kGive:
      return fmt::format("give {} {}@{}", run, member, doors.empty() ? "" : doors.front().text());
    case Kind::kForm:
      break;
  }
  std::vector<std::string> members;
  for (std::size_t rank = 0; rank < doors.size(); ++rank)
    members.push_back(fmt::format("{}@{}", plan.members[rank], doors[rank].text()));
  return fmt::format("form {} {} {} {} {} {} {} {} {}", plan.number, plan.place, plan.first, plan.stops ? 1 : 0, run,
                     member, text_of(lost), fmt::join(members, ","), reason);
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
    parsed.plan.first = words.number();
    const std::uint64_t stops = words.number();
    words.refuse_unless(stops <= 1);
    parsed.plan.stops = stops == 1;
    parsed.run = words.number();
    const std::uint64_t member = words.number();
    read_lost(words.next(), words, parsed);
    read_members(words.next(), words, parsed);
    words.refuse_unless(
        std::ranges::count(parsed.plan.members, member, [](int id) { return static_cast<std::uint64_t>(id); }) == 1);
    parsed.member = static_cast<int>(member);
  } else if (kind == "fetch" || kind == "give") {
    parsed.kind = kind == "fetch" ? Kind::kFetch : Kind::kGive;
    parsed.run = words.number();
    if (parsed.kind == Kind::kGive) {
      read_member(words.next(), words, parsed);
    } else {
      const std::uint64_t member = words.number();
      words.refuse_unless(member <= static_cast<std::uint64_t>(std::numeric_limits<int>::max()));
      parsed.member = static_cast<int>(member);
    }
    return checked(words, parsed);
  } else {
    return std::nullopt;
  }
  parsed.why = words.rest();
  return checked(words, parsed);
}

}  // namespace dragonn::comm
