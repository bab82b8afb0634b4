// SPDX-License-Identifier: MIT
#include "data/text/text_files.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "data/folder.h"
#include "data/text/utf8.h"

namespace dragonn::data {
namespace {

struct Texts {
  std::string train;
  std::string test;
};

/// Reads the file with that name from the folder. It must exist.
std::string read_part(const std::string& folder, const std::string& file, const std::string& key, BadSamples& bad) {
  const std::filesystem::path path = std::filesystem::path(folder) / file;
  if (!is_there(path)) {
    throw ConfigError(fmt::format("{}: no such file (data.{})", path.string(), key));
  }
  std::string text = read_utf8_file(path, bad);
  if (text.empty()) throw DataError(fmt::format("{}: an empty file", path.string()));
  return text;
}

/// Cuts off the end of a text, at the beginning of a line or, without lines, of a character.
std::string split_off(std::string& text, double share) {
  auto cut = static_cast<std::size_t>((1 - share) * static_cast<double>(text.size()));
  const auto is_inside_character = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  while (cut > 0 && cut < text.size() && is_inside_character(cut)) --cut;
  std::string end = text.substr(cut);
  text.resize(cut);
  return end;
}

Texts read_texts(const Settings& settings, const std::string& folder, BadSamples& bad) {
  Texts texts;
  texts.train = read_part(folder, settings.text("train_file"), "train_file", bad);
  const std::string& test_file = settings.text("test_file");
  texts.test = test_file.empty() ? split_off(texts.train, settings.number("held_out"))
                                 : read_part(folder, test_file, "test_file", bad);
  return texts;
}

}  // namespace

SettingSpecs text_settings(const TextDefaults& defaults) {
  return {
      SettingSpec::text("train_file", defaults.train_file, "file in data.path to train on"),
      SettingSpec::text("test_file", defaults.test_file,
                        "file in data.path to evaluate on; empty: the end of the training file (held_out)"),
      SettingSpec::number("held_out", 0.1,
                          "share of the training file, at its end, that is evaluated on if test_file is empty", 0, 1)
          .above_minimum(),
      SettingSpec::text(
          "level", defaults.level,
          "kind of token; word: text between blanks, plus a mark at each end of line; character: a UTF-8 character",
          {"character", "word"}),
      SettingSpec::integer("window", 35, "time steps of a batch; each batch continues where the previous one ends", 1,
                           100'000),
      SettingSpec::integer("minimum_count", 1, "tokens with fewer occurrences in the training text are unknown", 1),
      SettingSpec::integer("vocabulary", 0,
                           "largest number of tokens; the most frequent of the training text are kept; 0: no limit", 0,
                           1 << 24),
      bad_samples_setting("lines that are not UTF-8"),
  };
}

EncodedTexts load_texts(const std::string& name, const Settings& settings, const std::string& folder) {
  require_own_folder(folder, name);
  BadSamples bad(settings);
  const Texts texts = read_texts(settings, folder, bad);
  EncodedTexts encoded{Vocabulary(texts.train, {.level = token_level(settings.text("level")),
                                                .minimum_count = settings.integer("minimum_count"),
                                                .largest = settings.integer("vocabulary")}),
                       {},
                       {},
                       {}};
  encoded.train = encoded.vocabulary.encode(texts.train);
  encoded.test = encoded.vocabulary.encode(texts.test);
  const auto unknown = static_cast<double>(std::ranges::count(encoded.test, Vocabulary::kUnknown));
  const double share = unknown / std::max(1.0, static_cast<double>(encoded.test.size()));
  encoded.notes = bad.notes("lines");
  encoded.notes.push_back(
      fmt::format("{}: {} training tokens, vocabulary {}, {} evaluation tokens, {:.2f} % of them unknown", name,
                  encoded.train.size(), encoded.vocabulary.size(), encoded.test.size(), 100 * share));
  return encoded;
}

}  // namespace dragonn::data
