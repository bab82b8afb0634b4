// SPDX-License-Identifier: MIT
/// Files of SQuAD 1.1: questions about paragraphs, whose answers are spans of these.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "data/bad_samples.h"

namespace dragonn::data {

/// An answer, and the byte of the paragraph at which it begins.
struct SquadAnswer {
  std::string text;
  std::size_t begin = 0;
};

struct SquadQuestion {
  std::string id;
  std::string text;
  std::size_t paragraph = 0;
  std::vector<SquadAnswer> answers;  ///< at least 1
};

struct SquadFile {
  std::vector<std::string> paragraphs;  ///< fewer than 4 GiB each
  std::vector<SquadQuestion> questions;
};

/// Reads a file. @param bad leaves out questions without an answer, or whose answer is not where the file says.
/// @throws ConfigError if the file is missing; DataError naming the file, and the byte if it is not JSON, the key if it
/// is not there or of another type, or the question's id.
SquadFile read_squad_file(const std::filesystem::path& path, BadSamples& bad);

}  // namespace dragonn::data
