// SPDX-License-Identifier: MIT
/// Texts in UTF-8: files and their checks, and what a tokenizer asks about one code point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/printable.h"
#include "data/folder.h"

namespace dragonn::data {

/// The origin of a text, for error messages.
struct TextPlace {
  std::filesystem::path file;
  std::size_t line = 0;  ///< from 1

  std::string text() const;  ///< "etc/an4_train.transcription:12"
};

/// Checks a text. @param offset of the text in its file. @throws DataError naming file, line and byte if it is not
/// UTF-8.
void require_utf8(std::string_view text, const TextPlace& place, std::size_t offset);

/// Returns a file's text. Lines that are not UTF-8 are left out if `bad` says so.
/// @throws ConfigError if the file is missing, DataError naming file, line and byte if it is not UTF-8.
std::string read_utf8_file(const std::filesystem::path& path, BadSamples& bad);

/// Returns the code point that begins at `position` of well-formed UTF-8, and moves `position` behind it.
std::uint32_t next_character(std::string_view text, std::size_t& position);
/// Appends a code point as UTF-8.
void append_character(std::uint32_t character, std::string& text);

bool is_space(std::uint32_t character);    ///< tab, line feed, carriage return, and Unicode's separators (Z)
bool is_control(std::uint32_t character);  ///< Unicode's controls and formats (Cc, Cf) that are no space, and U+FFFD
/// Returns whether the character is punctuation: all of ASCII's that is no letter, digit or space, and Unicode's (P).
bool is_punctuation(std::uint32_t character);
bool is_letter(std::uint32_t character);     ///< Unicode's letters (L)
bool is_digit(std::uint32_t character);      ///< Unicode's numbers (N)
bool is_ideograph(std::uint32_t character);  ///< Chinese characters, which are words of their own

/// Returns the lower case of a letter, and other characters as they are.
std::uint32_t lower_case(std::uint32_t character);
/// Returns the letter below the accents of a letter, by Unicode's canonical decomposition; 0 for a combining accent;
/// and other characters as they are.
std::uint32_t without_accent(std::uint32_t character);

}  // namespace dragonn::data
