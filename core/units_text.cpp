// SPDX-License-Identifier: MIT
#include "core/units_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace dragonn {
namespace {

/// Drops whole characters from the end until "..." fits, too.
std::string shortened(std::string text, std::size_t columns) {
  if (width(text) <= columns) return text;
  while (!text.empty() && width(text) + 3 > columns) {
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
    if (!text.empty()) text.pop_back();
  }
  return text + "...";
}

/// Returns the value in the largest unit in which it is at least 1: "1.07 MB". Each unit is 1000 times the one before.
std::string in_units(double value, std::span<const std::string_view> units) {
  std::size_t unit = 0;
  // A value that rounds to 1000 belongs to the next unit.
  while (std::abs(value) >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), units[unit]);
}

}  // namespace

std::string three_digits(double value) {
  return fmt::format("{:.10g}", std::strtod(fmt::format("{:.3g}", value).c_str(), nullptr));
}

std::string bandwidth_text(double gbps) {
  static constexpr std::string_view kUnits[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
  return in_units(gbps * 1e9, kUnits);
}

std::string network_text(std::optional<double> gbps, std::optional<double> latency_us, const std::string& preset) {
  if (!gbps && !latency_us) return preset.empty() ? "not described" : preset;
  std::string text = gbps ? bandwidth_text(*gbps) : "";
  if (latency_us) text += fmt::format("{}{} us latency", text.empty() ? "" : ", ", three_digits(*latency_us));
  return preset.empty() ? text : fmt::format("{} ({})", text, preset);
}

std::string bytes_text(double bytes) {
  constexpr std::string_view kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  return in_units(bytes, kUnits);
}

std::string seconds_text(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds < 1e-3) return three_digits(seconds * 1e6) + " us";
  if (seconds < 1) return three_digits(seconds * 1e3) + " ms";
  if (seconds < 600) return three_digits(seconds) + " s";
  return seconds < 7200 ? three_digits(seconds / 60) + " min" : three_digits(seconds / 3600) + " h";
}

std::string elapsed_text(double seconds) {
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

std::string ratio_text(double ratio) {
  return three_digits(ratio) + "x";
}

std::size_t width(std::string_view text) {
  // Bytes that continue a character do not count.
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char letter) { return (static_cast<unsigned char>(letter) & 0xC0) != 0x80; }));
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (!lines.empty() && width(lines.back()) + 1 + width(word) <= columns) {
      lines.back().append(" ").append(word);
    } else {
      lines.emplace_back(word);
    }
    begin = end + 1;
  }
  return lines;
}

std::vector<std::string> table_lines(std::vector<std::vector<std::string>> rows, std::string_view alignment,
                                     std::size_t max_width) {
  constexpr std::size_t kGap = 2, kShortest = 8;
  std::vector<std::size_t> widths(alignment.size(), 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  const std::size_t others = std::accumulate(widths.begin() + 1, widths.end(), kGap * (widths.size() - 1));
  widths[0] = std::min(widths[0], std::max(kShortest, max_width - std::min(max_width, others)));
  std::vector<std::string> lines;
  for (auto& row : rows) {
    row[0] = shortened(std::move(row[0]), widths[0]);
    std::string& line = lines.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - width(row[i]), ' ');
      line.append(i == 0 ? 0 : kGap, ' ').append(alignment[i] == '<' ? row[i] + blanks : blanks + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
  }
  return lines;
}

}  // namespace dragonn
