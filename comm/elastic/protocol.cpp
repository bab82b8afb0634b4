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
  /// Returns the id of a member.
  int id_of(std::string_view word) {
    const std::uint64_t id = number_of(word);
    refuse_unless(id <= static_cast<std::uint64_t>(std::numeric_limits<int>::max()));
    return static_cast<int>(id);
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

std::vector<Loss> read_lost(std::string_view list, Words& words) {
  std::vector<Loss> lost;
  if (list == "-") return lost;
  while (!list.empty()) {
    std::string_view entry = take_until(',', list);
    Loss& loss = lost.emplace_back(words.id_of(take_until(':', entry)));
    if (entry.empty()) continue;
    ResidualMass& mass = loss.mass.emplace();
    mass.place = words.number_of(take_until(':', entry));
    mass.sum = words.real_of(take_until(':', entry));
    mass.l1 = words.real_of(entry);
  }
  return lost;
}

/// Reads the words NUMBER PLACE FIRST STOPS.
GenerationPlan read_plan(Words& words) {
  GenerationPlan plan;
  plan.number = words.number();
  plan.place = words.number();
  plan.first = words.number();
  const std::uint64_t stops = words.number();
  words.refuse_unless(stops <= 1);
  plan.stops = stops == 1;
  return plan;
}

std::string text_of(const GenerationPlan& plan) {
  return fmt::format("{} {} {} {}", plan.number, plan.place, plan.first, plan.stops ? 1 : 0);
}

/// Adds a member, whose id must be above those before.
void add_member(int member, Words& words, GenerationPlan& plan) {
  words.refuse_unless(plan.members.empty() || member > plan.members.back());
  plan.members.push_back(member);
}

/// Reads "ID@ADDRESS".
void read_member(std::string_view entry, Words& words, CoordinatorLine& line) {
  line.member = words.id_of(take_until('@', entry));
  const auto door = parse_address(entry);
  words.refuse_unless(door.has_value());
  line.doors.push_back(door.value_or(Address{}));
}

void read_members(std::string_view list, Words& words, CoordinatorLine& line) {
  while (!list.empty()) {
    read_member(take_until(',', list), words, line);
    add_member(line.member, words, line.plan);
  }
  words.refuse_unless(!line.plan.members.empty());
}

}  // namespace

std::string MemberLine::text() const {
  switch (kind) {
    case Kind::kJoin:
      return fmt::format("join {} {}", place, config);
    case Kind::kReturn:
      return fmt::format("return {} {} {}", place, config, generation);
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
  if (kind == "return") {
    MemberLine back{Kind::kReturn, 0, words.number()};
    back.config = words.number();
    back.generation = words.number();
    return checked(words, back);
  }
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
  return fmt::format("form {} {} {} {} {} {}", text_of(plan), run, member, text_of(lost), fmt::join(members, ","),
                     reason);
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
    parsed.plan = read_plan(words);
    parsed.run = words.number();
    const int member = words.id_of(words.next());
    parsed.lost = read_lost(words.next(), words);
    read_members(words.next(), words, parsed);
    words.refuse_unless(std::ranges::binary_search(parsed.plan.members, member));
    parsed.member = member;
  } else if (kind == "fetch" || kind == "give") {
    parsed.kind = kind == "fetch" ? Kind::kFetch : Kind::kGive;
    parsed.run = words.number();
    if (parsed.kind == Kind::kGive) {
      read_member(words.next(), words, parsed);
    } else {
      parsed.member = words.id_of(words.next());
    }
    return checked(words, parsed);
  } else {
    return std::nullopt;
  }
  parsed.why = words.rest();
  return checked(words, parsed);
}

std::string JournalEntry::text() const {
  std::vector<std::string> members;
  for (const auto& [member, place] : last.since) members.push_back(fmt::format("{}:{}", member, place));
  return fmt::format("journal {} {} {} {} {} {} {} {} {}", owner, token, next_id, config, text_of(last.plan),
                     last.reached, text_of(lost), fmt::join(members, ","), one_line_message(last.why));
}

std::optional<JournalEntry> JournalEntry::parse(const std::string& line) {
  Words words(line);
  if (words.next() != "journal") return std::nullopt;
  JournalEntry entry;
  entry.owner = words.number();
  entry.token = words.number();
  entry.next_id = words.id_of(words.next());
  entry.config = words.number();
  entry.last.plan = read_plan(words);
  entry.last.reached = words.number();
  entry.lost = read_lost(words.next(), words);
  std::string_view members = words.next();
  words.refuse_unless(entry.last.plan.number > 0 && entry.last.reached >= entry.last.plan.place && !members.empty());
  while (!members.empty()) {
    std::string_view member = take_until(',', members);
    const int id = words.id_of(take_until(':', member));
    words.refuse_unless(id < entry.next_id);
    add_member(id, words, entry.last.plan);
    entry.last.since[id] = words.number_of(member);
  }
  entry.last.why = words.rest();
  return checked(words, entry);
}

}  // namespace dragonn::comm
