// SPDX-License-Identifier: MIT
/// UTF-8: checking text and walking its characters.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "data/bad_samples.h"

namespace dragonn::data {

/// Bytes of the character that begins at `position`: 1 to 4, or 0 if no well-formed one does (RFC 3629: shortest forms
/// only, no surrogates, at most U+10FFFF). `position` < text.size().
std::size_t utf8_length(std::string_view text, std::size_t position);

/// Where a text came from, for error messages.
struct TextPlace {
  std::filesystem::path file;
  std::size_t line = 0;  ///< from 1

  std::string text() const;  ///< "etc/an4_train.transcription:12"
};

/// @param offset of the text in its file. @throws DataError naming file, line and byte where it is not UTF-8.
void require_utf8(std::string_view text, const TextPlace& place, std::size_t offset);

/// A file's text, without the lines that are not UTF-8 where `bad` leaves them out.
/// @throws ConfigError if the file is missing, DataError naming file, line and byte where it is not UTF-8.
std::string read_utf8_file(const std::filesystem::path& path, BadSamples& bad);

}  // namespace dragonn::data
