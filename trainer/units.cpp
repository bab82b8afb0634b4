// SPDX-License-Identifier: MIT
#include "trainer/units.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

namespace dragonn::trainer {

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  // What three digits round up to 1000 is one of the next unit.
  for (; bytes >= 999.5 && unit < 4; ++unit) bytes /= 1000;
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string seconds_text(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t hours = total / 3600, minutes = total / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60);
  if (minutes > 0) return fmt::format("{}:{:02}", minutes, total % 60);
  return fmt::format("{} s", total);
}

std::string percent_text(double share) {
  if (share > 0 && share < 0.005) return "<1 %";
  return fmt::format("{:.0f} %", 100 * share);
}

std::vector<std::string> wrapped(const std::string& text, std::size_t columns) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.size();
    if (end - begin > columns) {
      const std::size_t space = text.rfind(' ', begin + columns);
      end = space == std::string::npos || space <= begin ? text.find(' ', begin + columns) : space;
      end = std::min(end, text.size());
    }
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace dragonn::trainer
