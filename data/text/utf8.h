// SPDX-License-Identifier: MIT
/// Text files in UTF-8, and the checks of their texts.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/utf8.h"
#include "data/bad_samples.h"

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

}  // namespace dragonn::data
