// SPDX-License-Identifier: MIT
#include "bench/rows.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "core/file.h"

namespace dragonn::bench {
namespace {

constexpr std::size_t kGap = 2;  // spaces between columns

std::string number_text(double value) {
  constexpr double kMaxDigits = 1e15;  // above, a double has no exact digits to show
  if (std::abs(value) >= 1e4 && std::abs(value) < kMaxDigits) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

std::string cell(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "-";
  if (value.is_structured()) {  // {"mean": 3, "max": 4} as 3/4, [32, 32, 3] as 32,32,3
    std::vector<std::string> parts;
    for (const auto& [key, part] : value.items()) parts.push_back(cell(part));
    if (value.is_object() && parts.size() == 2 && parts[0] == parts[1]) parts.pop_back();
    return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, value.is_array() ? "," : "/"));
  }
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return number_text(value.get<double>());
  return value.dump();
}

/// A column as text, with its name on top.
struct Column {
  std::vector<std::string> cells;
  bool is_text = true;  ///< text is aligned to the left, numbers to the right

  std::size_t width() const {
    std::size_t widest = 0;
    for (const std::string& text : cells) widest = std::max(widest, text.size());
    return widest;
  }
};

Column column_of(const Rows& rows, const std::string& key) {
  Column column{{key}};
  for (const auto& row : rows) {
    column.cells.push_back(cell(row.at(key)));
    column.is_text = column.is_text && (row.at(key).is_string() || row.at(key).is_null());
  }
  return column;
}

void print_columns(const std::vector<Column>& columns, std::FILE* stream) {
  if (columns.empty()) return;
  for (std::size_t line = 0; line < columns[0].cells.size(); ++line) {
    std::string text;
    for (const Column& column : columns) {
      text += column.is_text ? fmt::format("{:<{}}", column.cells[line], column.width())
                             : fmt::format("{:>{}}", column.cells[line], column.width());
      text.append(kGap, ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
    fmt::print(stream, "{}\n", text);
  }
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
  const std::string text = nlohmann::ordered_json(rows).dump(2) + "\n";
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
  std::vector<Column> shown;
  std::size_t width = 0;
  const auto show = [&](const std::string& key) {
    Column column = column_of(rows, key);
    width += column.width() + (shown.empty() ? 0 : kGap);
    if (width <= kTableWidth || shown.empty()) shown.push_back(std::move(column));
  };
  for (const std::string& key : columns.conditions) {
    const std::vector<std::string> values = distinct_values(rows, key);
    if (values.size() == 1) constant.push_back(fmt::format("{} {}", key, values[0]));
    if (values.size() > 1) show(key);
  }
  for (const std::string& key : columns.results)
    if (!distinct_values(rows, key).empty()) show(key);
  print_conditions(constant, stream);
  print_columns(shown, stream);
}

void print_wide_table(const Rows& rows, std::FILE* stream) {
  if (rows.empty()) return;
  std::vector<Column> columns;
  for (const auto& [key, value] : rows[0].items()) columns.push_back(column_of(rows, key));
  print_columns(columns, stream);
}

}  // namespace dragonn::bench
