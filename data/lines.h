// SPDX-License-Identifier: MIT
/// Iteration over the lines and words of a text in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace dragonn::data {

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
