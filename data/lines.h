// SPDX-License-Identifier: MIT
/// Lines and words of a text in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace dragonn::data {

/// Calls take(line) for each line, without its newline. A last line need not have one.
template <class Take>
void for_each_line(std::string_view text, const Take& take) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    take(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

/// Calls take(word) for what stands between blanks.
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
