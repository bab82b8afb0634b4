// SPDX-License-Identifier: MIT
/// UTF-8: checking text and walking its characters.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace dragonn::data {

/// Bytes of the character that begins at `position`: 1 to 4, or 0 if no well-formed one does (RFC 3629: shortest forms
/// only, no surrogates, at most U+10FFFF). `position` < text.size().
std::size_t utf8_length(std::string_view text, std::size_t position);

/// A file's text. @throws ConfigError if the file is missing, DataError naming file, line and byte where it is not
/// UTF-8.
std::string read_utf8_file(const std::filesystem::path& path);

}  // namespace dragonn::data
