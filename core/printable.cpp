// SPDX-License-Identifier: MIT
#include "core/printable.h"

#include <algorithm>

#include "core/utf8.h"

namespace dragonn {
namespace {

/// Returns whether a well-formed character is no text of its own: a control character (C0, U+007F to U+009F), a line or
/// paragraph separator, or a mark of direction (U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
bool is_control(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  if (character.size() == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  if (character.size() != 3 || byte(0) != 0xe2) return false;
  if (byte(1) == 0x80) return byte(2) == 0x8e || byte(2) == 0x8f || (byte(2) >= 0xa8 && byte(2) <= 0xae);
  return byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9;
}

/// Returns where the character begins that the byte at `position` belongs to.
std::size_t start_of_character(std::string_view text, std::size_t position) {
  constexpr std::size_t kMostBehind = 3;  // bytes of a character behind its first
  for (std::size_t back = 0; back <= std::min(kMostBehind, position); ++back) {
    if ((static_cast<unsigned char>(text[position - back]) & 0xc0) != 0x80) return position - back;
  }
  return position;  // no UTF-8
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t length = utf8_length(text, position);
    const std::string_view character = text.substr(position, length);
    if (length == 0 || is_control(character)) {
      shown += '?';
    } else {
      shown += character;
    }
    position += length == 0 ? 1 : length;
  }
  return shown;
}

std::string excerpt(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) return printable(text);
  return printable(text.substr(0, start_of_character(text, longest))) + "...";
}

std::string one_line_message(std::string_view message) {
  if (message.size() <= kLongestMessage) return printable(message);
  constexpr std::size_t kTail = kLongestMessage / 4;
  return excerpt(message, kLongestMessage - kTail) + " " +
         printable(message.substr(start_of_character(message, message.size() - kTail)));
}

}  // namespace dragonn
