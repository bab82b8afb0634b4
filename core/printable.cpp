// SPDX-License-Identifier: MIT
#include "core/printable.h"

#include <algorithm>
#include <utf8proc.h>

namespace dragonn {
namespace {

/// Returns whether a character is no text: a control character, a line or paragraph separator, or a mark of direction.
bool is_control(char32_t character) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  if (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP)
    return true;
  const auto within = [&](char32_t first, char32_t last) { return first <= character && character <= last; };
  return within(0x200E, 0x200F) || within(0x202A, 0x202E) || within(0x2066, 0x2069);
}

/// Returns where the character begins that the byte at `position` belongs to.
std::size_t start_of_character(std::string_view text, std::size_t position) {
  constexpr std::size_t kMaxBehind = 3;  // bytes of a character behind its first
  for (std::size_t back = 0; back <= std::min(kMaxBehind, position); ++back)
    if ((static_cast<unsigned char>(text[position - back]) & 0xc0) != 0x80) return position - back;
  return position;  // no UTF-8
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t position) {
  char32_t character = 0;
  return utf8_character(text, position, character);
}

std::size_t utf8_character(std::string_view text, std::size_t position, char32_t& character) {
  utf8proc_int32_t found = 0;
  const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + position,
                                       static_cast<utf8proc_ssize_t>(text.size() - position), &found);
  if (length <= 0) return 0;
  character = static_cast<char32_t>(found);
  return static_cast<std::size_t>(length);
}

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    char32_t character = 0;
    const std::size_t length = utf8_character(text, position, character);
    if (length == 0 || is_control(character))
      shown += '?';
    else
      shown += text.substr(position, length);
    position += std::max<std::size_t>(length, 1);
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
