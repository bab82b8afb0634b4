// SPDX-License-Identifier: MIT
#include "bench/quick.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/quick.h"

namespace dragonn::bench {
namespace {

constexpr std::int64_t kLargestSize = 1 << 16;
constexpr std::int64_t kMostRanks = 8;

struct Limit {
  const char* option;
  std::int64_t largest;
  bool is_added;  ///< added if the option is not given
};

/// Cuts the numbers of a list: "4,8,64" with 8 is "4,8". Any other text is left to the parser's error.
std::string limited(const std::string& list, std::int64_t largest) {
  std::vector<std::int64_t> values;
  const char* const end = list.data() + list.size();
  for (const char* begin = list.data(); begin <= end;) {
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || (rest != end && *rest != ',')) return list;
    value = std::min(value, largest);
    if (!std::ranges::count(values, value)) values.push_back(value);
    begin = rest + 1;
  }
  return fmt::format("{}", fmt::join(values, ","));
}

/// Splits "--rounds=3" into the words of "--rounds 3".
void split_at_equals(std::vector<std::string>& arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    if (!arguments[i].starts_with("--") || equals == std::string::npos) continue;
    arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments[i].substr(equals + 1));
    arguments[i].resize(equals);
  }
}

}  // namespace

std::vector<std::string> shortened(std::vector<std::string> arguments, const CLI::App& program) {
  const auto rounds = quick_limit();
  if (!rounds || arguments.empty()) return arguments;
  const auto is_named = [&](const CLI::App* command) { return command->get_name() == arguments.front(); };
  const std::vector<const CLI::App*> commands = program.get_subcommands(is_named);
  if (commands.empty()) return arguments;
  split_at_equals(arguments);
  const bool has_input = std::ranges::count(arguments, "--input") > 0;
  const Limit limits[] = {{"--rounds", *rounds, true},         {"--steps", *rounds, true},
                          {"--warmup", *rounds, true},         {"--numel", kLargestSize, !has_input},
                          {"--max-numel", kLargestSize, true}, {"--ranks", kMostRanks, false}};
  for (const Limit& limit : limits) {
    if (commands.front()->get_option_no_throw(limit.option) == nullptr) continue;
    const auto given = std::ranges::find(arguments, limit.option);
    if (given == arguments.end()) {
      if (limit.is_added) arguments.insert(arguments.end(), {limit.option, std::to_string(limit.largest)});
    } else if (given + 1 != arguments.end()) {
      given[1] = limited(given[1], limit.largest);
    }
  }
  fmt::print(stderr, "dragonn-bench: DRAGONN_QUICK: small sizes, few rounds; the numbers mean nothing\n");
  return arguments;
}

}  // namespace dragonn::bench
