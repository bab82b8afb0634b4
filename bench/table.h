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
  /// What was measured. A key is a column where its values differ, else it stands once in the lines above the table.
  std::vector<std::string> conditions;
  /// Columns, the most important first.
  std::vector<std::string> results;
};

/// Most characters in a line of a narrow table.
inline constexpr std::size_t kTableWidth = 100;

/// Prints the columns that answer the benchmark's question in lines of at most kTableWidth characters: columns that do
/// not fit are left out from the right, and those without any value, too.
void print_table(const Rows& rows, const TableColumns& columns, std::FILE* stream);
/// Prints all columns, whatever their width.
void print_wide_table(const Rows& rows, std::FILE* stream);

}  // namespace dragonn::bench
