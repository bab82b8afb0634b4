// SPDX-License-Identifier: MIT
#include "core/program.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "core/error.h"
#include "core/fault_point.h"
#include "core/version_text.h"

namespace dragonn {

std::string_view version() {
  return kVersionText;
}

std::string version_line(std::string_view program) {
  return fmt::format("{} {}{}", program, version(), has_fault_points() ? " (for tests: with fault points)" : "");
}

std::optional<std::int64_t> quick_limit() {
  const char* variable = std::getenv("DRAGONN_QUICK");
  const std::string_view text = variable == nullptr ? "" : variable;
  if (text.empty()) return std::nullopt;
  std::int64_t limit = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error != std::errc() || end != text.data() + text.size() || limit < 1)
    throw ConfigError(fmt::format("DRAGONN_QUICK={}: expected a number of steps, at least 1", text));
  return limit;
}

}  // namespace dragonn
