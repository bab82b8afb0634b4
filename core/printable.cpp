// SPDX-License-Identifier: MIT
#include "core/printable.h"

#include <algorithm>
#include <cstdint>

namespace dragonn {
namespace {

/// The bytes that may follow a first byte: the length of the character, and the range of its second byte, which
/// excludes overlong forms, surrogates and values beyond U+10FFFF. All further bytes are 0x80 to 0xBF.
struct Lead {
  std::size_t length = 0;
  std::uint8_t second_low = 0x80;
  std::uint8_t second_high = 0xBF;
};

Lead lead_of(std::uint8_t first) {
  if (first < 0x80) return {1};
  if (first < 0xC2) return {0};
  if (first < 0xE0) return {2};
  if (first == 0xE0) return {3, 0xA0, 0xBF};
  if (first == 0xED) return {3, 0x80, 0x9F};
  if (first < 0xF0) return {3};
  if (first == 0xF0) return {4, 0x90, 0xBF};
  if (first < 0xF4) return {4};
  if (first == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t offset) { return static_cast<std::uint8_t>(text[position + offset]); };
  const Lead lead = lead_of(byte(0));
  if (lead.length <= 1) return lead.length;
  if (text.size() - position < lead.length) return 0;
  if (byte(1) < lead.second_low || byte(1) > lead.second_high) return 0;
  for (std::size_t offset = 2; offset < lead.length; ++offset) {
    if (byte(offset) < 0x80 || byte(offset) > 0xBF) return 0;
  }
  return lead.length;
}

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
