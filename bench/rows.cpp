// SPDX-License-Identifier: MIT
#include "bench/rows.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "core/file.h"

namespace dragonn::bench {
namespace {

std::string cell(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "-";
  if (value.is_structured()) {  // {"mean": 3, "max": 4} as 3/4, [32, 32, 3] as 32,32,3
    std::vector<std::string> parts;
    for (const auto& [key, part] : value.items()) parts.push_back(cell(part));
    return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, value.is_array() ? "," : "/"));
  }
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  return value.dump();
}

}  // namespace

void print_table(const Rows& rows, std::FILE* stream) {
  if (rows.empty()) return;
  std::vector<std::vector<std::string>> lines(rows.size() + 1);
  for (const auto& [key, value] : rows[0].items()) lines[0].push_back(key);
  for (std::size_t row = 0; row < rows.size(); ++row)
    for (const auto& [key, value] : rows[row].items()) lines[row + 1].push_back(cell(value));
  std::vector<std::size_t> widths(lines[0].size());
  for (const auto& line : lines)
    for (std::size_t column = 0; column < widths.size(); ++column)
      widths[column] = std::max(widths[column], line.at(column).size());
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t column = 0; column < widths.size(); ++column)
      text += fmt::format("{:>{}}  ", line[column], widths[column]);
    fmt::print(stream, "{}\n", text);
  }
}

void write_json(const Rows& rows, const std::string& target) {
  const std::string text = nlohmann::ordered_json(rows).dump(2) + "\n";
  if (target != "-") return write_file_atomically(target, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw SystemError("cannot write to the standard output");
}

double percentile(std::vector<double> values, double share) {
  DRAGONN_CHECK(!values.empty(), "percentile of no values");
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
}

}  // namespace dragonn::bench
