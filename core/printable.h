// SPDX-License-Identifier: MIT
/// Printable: text from outside, made safe for one line of a log or a terminal; and the characters of UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dragonn {

/// Returns the bytes of the character that begins at `position`: 1 to 4, or 0 if no well-formed one does (RFC 3629:
/// shortest forms only, no surrogates, at most U+10FFFF). `position` < text.size().
std::size_t utf8_length(std::string_view text, std::size_t position);
/// Returns the same, and sets `character` to the code point, if there is one.
std::size_t utf8_character(std::string_view text, std::size_t position, char32_t& character);

/// Returns `text` with '?' for every control character, every mark that changes the direction of a text, and every byte
/// that is not UTF-8: no outsider's text moves a cursor, begins a line of its own, or reads as another.
std::string printable(std::string_view text);

/// Bytes of an excerpt, without the mark of its cut.
inline constexpr std::size_t kLongestExcerpt = 100;

/// Returns the beginning of `text`, at most `longest` bytes, printable: for a message that quotes a file, a config or
/// another process. "..." follows where it is cut.
std::string excerpt(std::string_view text, std::size_t longest = kLongestExcerpt);

/// Bytes of a message beyond which its middle is left out.
inline constexpr std::size_t kLongestMessage = 8192;

/// Returns a message on one printable line. A message that quotes more than any reader wants keeps beginning and end.
std::string one_line_message(std::string_view message);

}  // namespace dragonn
