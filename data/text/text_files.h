// SPDX-License-Identifier: MIT
/// Text files: the training and test text of a data set, as numbers of one vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/settings.h"
#include "data/text/vocabulary.h"

namespace dragonn::data {

/// The name of a text data set and the defaults of its settings.
struct TextDefaults {
  std::string name;
  std::string summary;
  std::string source;
  std::string train_file;
  std::string test_file;  ///< empty: the test text is the last tenth of the training file
  std::string level = "word";
};

/// Declares train_file, test_file, held_out, level, window, minimum_count, vocabulary, bad_samples.
SettingSpecs text_settings(const TextDefaults& defaults);

struct EncodedTexts {
  Vocabulary vocabulary;  ///< made from the training text
  std::vector<std::int32_t> train;
  std::vector<std::int32_t> test;
  std::vector<std::string> notes;  ///< sizes, and samples that were left out
};

/// Loads both texts. @param settings hold text_settings(). @throws ConfigError for a missing folder or file, DataError
/// naming file and line.
EncodedTexts load_texts(const std::string& name, const Settings& settings, const std::string& folder);

}  // namespace dragonn::data
