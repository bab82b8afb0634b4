// SPDX-License-Identifier: MIT
/// Characters: what a tokenizer asks about one code point of Unicode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dragonn::data {

/// Returns the code point that begins at `position` of well-formed UTF-8, and moves `position` behind it.
std::uint32_t next_character(std::string_view text, std::size_t& position);
/// Appends a code point as UTF-8.
void append_character(std::uint32_t character, std::string& text);

bool is_space(std::uint32_t character);
bool is_control(std::uint32_t character);  ///< control and format characters that are no space
/// Returns whether the character is punctuation: all of ASCII's that is no letter, digit or space, and the usual marks
/// of Unicode's blocks Latin-1, General Punctuation and CJK.
bool is_punctuation(std::uint32_t character);
bool is_ideograph(std::uint32_t character);  ///< Chinese characters, which are words of their own

/// Returns the lower case of a Latin (U+0000 to U+017F), Greek or Cyrillic letter, and other characters as they are.
std::uint32_t lower_case(std::uint32_t character);
/// Returns the letter below the accents of a Latin letter (U+00C0 to U+017F); 0 for a combining accent; and other
/// characters as they are.
std::uint32_t without_accent(std::uint32_t character);

}  // namespace dragonn::data
