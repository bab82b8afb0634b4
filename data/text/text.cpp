// SPDX-License-Identifier: MIT
/// The data sets made of text files: `text`, `ptb`, `wikitext2` and `tinyshakespeare`, of which the next token is
/// predicted, and `masked_text`, windows with hidden tokens that are predicted.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/choice.h"
#include "core/error.h"
#include "data/folder.h"
#include "data/sample_dataset.h"
#include "data/text/token_dataset.h"
#include "data/text/utf8.h"
#include "data/text/vocabulary.h"

namespace dragonn::data {
namespace {

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

struct EncodedTexts {
  Vocabulary vocabulary;  ///< made from the training text
  std::vector<std::int32_t> train;
  std::vector<std::int32_t> test;
  std::vector<std::string> notes;  ///< sizes, and samples that were left out
};

/// Reads the file that the setting `key` names.
std::string read_part(const Settings& settings, const std::string& folder, const std::string& key, BadSamples& bad) {
  const std::filesystem::path path = std::filesystem::path(folder) / settings.text(key);
  if (!is_there(path)) {
    throw ConfigError(fmt::format("{}: no such file (data.{})", path.string(), key));
  }
  std::string text = read_utf8_file(path, bad);
  if (text.empty()) throw DataError(fmt::format("{}: an empty file", path.string()));
  return text;
}

/// Cuts off the end of a text, at the beginning of a character.
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

/// Loads both texts. @param settings hold text_settings(). @throws ConfigError for a missing folder or file, DataError
/// naming file and line.
EncodedTexts load_texts(const std::string& name, const Settings& settings, const std::string& folder) {
  require_own_folder(folder, name);
  BadSamples bad(settings);
  std::string train = read_part(settings, folder, "train_file", bad);
  const std::string test = settings.text("test_file").empty() ? split_off(train, settings.number("held_out"))
                                                              : read_part(settings, folder, "test_file", bad);
  EncodedTexts encoded{Vocabulary(train, {.level = choice_of<TokenLevel>("token level", settings.text("level")),
                                          .minimum_count = settings.integer("minimum_count"),
                                          .largest = settings.integer("vocabulary")}),
                       {},
                       {},
                       bad.notes("lines")};
  encoded.train = encoded.vocabulary.encode(train);
  encoded.test = encoded.vocabulary.encode(test);
  const auto unknown = static_cast<double>(std::ranges::count(encoded.test, Vocabulary::kUnknown));
  const double share = unknown / std::max(1.0, static_cast<double>(encoded.test.size()));
  encoded.notes.push_back(
      fmt::format("{}: {} training tokens, vocabulary {}, {} evaluation tokens, {:.2f} % of them unknown", name,
                  encoded.train.size(), encoded.vocabulary.size(), encoded.test.size(), 100 * share));
  return encoded;
}

DatasetSplits make_streams(const Settings& settings, EncodedTexts texts, std::uint64_t /*seed*/) {
  const auto make = [&](std::vector<std::int32_t>& tokens) {
    return std::make_shared<const TokenDataset>(std::move(tokens), static_cast<int>(texts.vocabulary.size()),
                                                settings.integer("window"));
  };
  return {make(texts.train), make(texts.test), texts.notes};
}

/// The shares of the tokens to predict: 8 of 10 are replaced by the mask, 1 by a random token, and 1 is left.
/// Source: Devlin et al., "BERT", arXiv:1810.04805, section 3.1.
constexpr double kMasked = 0.8;
constexpr double kRandom = 0.1;

/// Sample i is the i-th window; the last token of the vocabulary is the mask. In training a window hides other tokens
/// in every epoch, in evaluation always the same.
class MaskedTextDataset final : public SampleDataset {
 public:
  MaskedTextDataset(std::vector<std::int32_t> tokens, std::size_t vocabulary, std::int64_t window, double share,
                    std::uint64_t seed)
      : tokens_(std::move(tokens)),
        mask_(static_cast<std::int32_t>(vocabulary)),
        window_(window),
        share_(share),
        seed_(seed) {
    if (size() == 0) {
      throw ConfigError(fmt::format("a text of {} tokens has no window of {} (data.window)", tokens_.size(), window));
    }
  }

  std::size_t size() const override { return tokens_.size() / static_cast<std::size_t>(window_); }
  Shape sample_shape() const override { return {window_}; }
  int classes() const override { return mask_ + 1; }
  TargetKind target_kind() const override { return TargetKind::kClassPerStep; }

  void read(std::size_t index, Rng* augmentation, std::span<float> sample,
            std::vector<std::int32_t>& labels) const override {
    Rng fixed(seed_, "masked evaluation", {index});
    Rng& rng = augmentation != nullptr ? *augmentation : fixed;
    const std::size_t begin = index * sample.size();
    // One token at least is hidden, so that every sample has something to guess.
    const std::size_t certain = rng.below(sample.size());
    for (std::size_t i = 0; i < sample.size(); ++i) {
      const std::int32_t token = tokens_[begin + i];
      const bool hidden = rng.uniform() < share_ || i == certain;
      sample[i] = static_cast<float>(hidden ? replacement(token, rng) : token);
      labels.push_back(hidden ? token : kIgnoredLabel);
    }
  }

 private:
  std::int32_t replacement(std::int32_t token, Rng& rng) const {
    const double choice = rng.uniform();
    if (choice < kMasked) return mask_;
    if (choice < kMasked + kRandom) return static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(mask_)));
    return token;
  }

  std::vector<std::int32_t> tokens_;
  std::int32_t mask_;
  std::int64_t window_;
  double share_;
  std::uint64_t seed_;
};

DatasetSplits make_masked(const Settings& settings, EncodedTexts texts, std::uint64_t seed) {
  const auto make = [&](std::vector<std::int32_t>& tokens) {
    return std::make_shared<const MaskedTextDataset>(std::move(tokens), texts.vocabulary.size(),
                                                     settings.integer("window"), settings.number("hidden"), seed);
  };
  return {make(texts.train), make(texts.test), texts.notes};
}

DatasetEntry entry(const TextDefaults& defaults,
                   DatasetSplits (*make)(const Settings&, EncodedTexts, std::uint64_t seed) = make_streams) {
  return {{defaults.name, defaults.summary, defaults.source, text_settings(defaults)},
          [name = defaults.name, make](const Settings& settings, const std::string& folder, std::uint64_t seed) {
            return make(settings, load_texts(name, settings, folder), seed);
          }};
}

const Registration<DatasetEntry> text{entry({.name = "text",
                                             .summary = "text stream from any UTF-8 files, as words or characters",
                                             .source = "",
                                             .train_file = "train.txt",
                                             .test_file = "valid.txt"})};
const Registration<DatasetEntry> ptb{
    entry({.name = "ptb",
           .summary = "Penn Treebank as a stream of words",
           .source = "Marcus et al., Building a large annotated corpus of English; Mikolov et al. 2010",
           .train_file = "ptb.train.txt",
           .test_file = "ptb.valid.txt"})};
const Registration<DatasetEntry> wikitext2{entry({.name = "wikitext2",
                                                  .summary = "WikiText-2 as a stream of words",
                                                  .source = "Merity et al., arXiv:1609.07843",
                                                  .train_file = "wiki.train.tokens",
                                                  .test_file = "wiki.valid.tokens"})};
const Registration<DatasetEntry> tinyshakespeare{
    entry({.name = "tinyshakespeare",
           .summary = "plays of Shakespeare as a stream of characters",
           .source = "Karpathy, The unreasonable effectiveness of recurrent neural networks",
           .train_file = "input.txt",
           .test_file = "",
           .level = "character"})};

const Registration<DatasetEntry> masked_text{[] {
  DatasetEntry masked = entry({.name = "masked_text",
                               .summary = "windows of UTF-8 text with hidden tokens, which the model predicts",
                               .source = "Devlin et al., arXiv:1810.04805, section 3.1",
                               .train_file = "train.txt",
                               .test_file = "valid.txt"},
                              make_masked);
  masked.settings.push_back(
      SettingSpec::number("hidden", 0.15, "share of the tokens that are hidden and predicted", 0, 1).above_minimum());
  return masked;
}()};

}  // namespace
}  // namespace dragonn::data
