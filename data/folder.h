// SPDX-License-Identifier: MIT
/// The folder of a data set, and the lines of its files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.h"

namespace dragonn::data {

/// Returns whether a path can be reached and something is there; no name is too long to ask.
bool is_there(const std::filesystem::path& path);

/// Makes the error for missing data that scripts/get_data.sh fetches. It names `missing` and the command.
ConfigError missing_data(const std::string& missing, const std::string& name, const std::string& folder);
/// Checks that `folder` exists. @throws ConfigError (missing_data).
void require_folder(const std::string& folder, const std::string& name);
/// Checks the folder of a data set that users provide: the error names no command.
void require_own_folder(const std::string& folder, const std::string& name);

/// Calls take(line) for each line, without its newline, which the last line need not have.
template <class Take>
void for_each_line(std::string_view text, const Take& take) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    take(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

/// Calls take(word) for each word, as blanks separate them.
template <class Take>
void for_each_word(std::string_view text, const Take& take) {
  constexpr std::string_view kBlanks = " \t\r\v\f";
  for (std::size_t begin = text.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    take(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kBlanks, end);
  }
}

}  // namespace dragonn::data
