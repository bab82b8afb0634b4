// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/benchmark.h"
#include "core/error.h"
#include "core/file.h"
#include "core/units_text.h"

namespace dragonn::bench {
namespace {

constexpr std::size_t kGap = 2;  // blanks between columns (core/units_text.h)

std::string cell(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "-";
  if (value.is_structured()) {  // {"mean": 3, "max": 4} as 3/4, [32, 32, 3] as 32,32,3
    std::vector<std::string> parts;
    for (const auto& [key, part] : value.items()) parts.push_back(cell(part));
    if (value.is_object() && parts.size() == 2 && parts[0] == parts[1]) parts.pop_back();
    return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, value.is_array() ? "," : "/"));
  }
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return value.dump();
  constexpr double kMaxDigits = 1e15;  // above, a double has no exact digits to show
  const double number = value.get<double>(), magnitude = std::abs(number);
  return magnitude >= 1e4 && magnitude < kMaxDigits ? fmt::format("{:.0f}", number) : fmt::format("{:.4g}", number);
}

/// Prints the columns of these keys: texts are aligned to the left, numbers to the right.
void print_columns(const Rows& rows, const std::vector<std::string>& keys, std::FILE* stream) {
  if (keys.empty()) return;
  std::vector<std::vector<std::string>> lines{keys};
  std::string alignment(keys.size(), '<');
  for (const auto& row : rows) {
    lines.emplace_back();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto& value = row.at(keys[i]);
      lines.back().push_back(cell(value));
      if (!value.is_string() && !value.is_null()) alignment[i] = '>';
    }
  }
  for (const std::string& line : table_lines(std::move(lines), alignment)) fmt::print(stream, "{}\n", line);
}

/// Returns the texts of a key's values, each once, without null.
std::vector<std::string> distinct_values(const Rows& rows, const std::string& key) {
  std::vector<std::string> values;
  for (const auto& row : rows) {
    if (!row.contains(key) || row.at(key).is_null()) continue;
    std::string text = cell(row.at(key));
    if (std::ranges::find(values, text) == values.end()) values.push_back(std::move(text));
  }
  return values;
}

/// Prints "device cpu, numel 4096", in as many lines as it takes.
void print_conditions(const std::vector<std::string>& conditions, std::FILE* stream) {
  std::string line;
  for (const std::string& condition : conditions) {
    if (!line.empty() && line.size() + condition.size() + 3 > kTableWidth) {
      fmt::print(stream, "{},\n", line);
      line.clear();
    }
    line += (line.empty() ? "" : ", ") + condition;
  }
  if (!line.empty()) fmt::print(stream, "{}\n\n", line);
}

}  // namespace

void write_json(const Rows& rows, const std::string& target) {
  write_text(nlohmann::ordered_json(rows).dump(2) + "\n", target);
}

void write_text(const std::string& text, const std::string& target) {
  if (target != "-") return write_file_atomically(target, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw SystemError("cannot write to the standard output");
}

nlohmann::ordered_json or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

double percentile(std::vector<double> values, double share) {
  DRAGONN_CHECK(!values.empty(), "percentile of no values");
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
}

void print_table(const Rows& rows, const TableColumns& columns, std::FILE* stream) {
  if (rows.empty()) return;
  std::vector<std::string> constant;
  std::vector<std::string> shown;
  std::size_t taken = 0;
  const auto show = [&](const std::string& key) {
    std::size_t widest = width(key);
    for (const auto& row : rows) widest = std::max(widest, width(cell(row.at(key))));
    taken += widest + (shown.empty() ? 0 : kGap);
    if (taken <= kTableWidth || shown.empty()) shown.push_back(key);
  };
  for (const std::string& key : columns.conditions) {
    const std::vector<std::string> values = distinct_values(rows, key);
    if (values.size() == 1) constant.push_back(fmt::format("{} {}", key, values[0]));
    if (values.size() > 1) show(key);
  }
  for (const std::string& key : columns.results)
    if (!distinct_values(rows, key).empty()) show(key);
  print_conditions(constant, stream);
  print_columns(rows, shown, stream);
}

void print_wide_table(const Rows& rows, std::FILE* stream) {
  if (rows.empty()) return;
  std::vector<std::string> keys;
  for (const auto& [key, value] : rows[0].items()) keys.push_back(key);
  print_columns(rows, keys, stream);
}

}  // namespace dragonn::bench
