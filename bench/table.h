// SPDX-License-Identifier: MIT
/// Tables: the rows of a benchmark as text.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "bench/rows.h"

namespace dragonn::bench {

/// The keys that a narrow table shows.
struct TableColumns {
  /// The conditions of the measurement. A key is a column if its values differ; otherwise it stands once in the lines
  /// above the table.
  std::vector<std::string> conditions;
  /// The columns of results, the most important first.
  std::vector<std::string> results;
};

/// The longest line of a narrow table, in characters.
inline constexpr std::size_t kTableWidth = 100;

/// Prints the columns that answer the benchmark's question, in lines of at most kTableWidth characters. Columns that do
/// not fit are left out from the right; columns without any value are left out, too.
void print_table(const Rows& rows, const TableColumns& columns, std::FILE* stream);
/// Prints all columns, whatever their width.
void print_wide_table(const Rows& rows, std::FILE* stream);

}  // namespace dragonn::bench
