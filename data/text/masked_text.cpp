// SPDX-License-Identifier: MIT
/// The data set `masked_text`: windows of a text with hidden tokens that the network predicts.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"
#include "data/sample_dataset.h"
#include "data/text/text_files.h"

namespace dragonn::data {
namespace {

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

const TextDefaults kDefaults{.name = "masked_text",
                             .summary = "windows of UTF-8 text with hidden tokens, which the model predicts",
                             .source = "Devlin et al., arXiv:1810.04805, section 3.1",
                             .train_file = "train.txt",
                             .test_file = "valid.txt"};

DatasetSplits load(const Settings& settings, const std::string& folder, std::uint64_t seed) {
  EncodedTexts texts = load_texts(kDefaults.name, settings, folder);
  const auto make = [&](std::vector<std::int32_t>& tokens) {
    return std::make_shared<const MaskedTextDataset>(std::move(tokens), texts.vocabulary.size(),
                                                     settings.integer("window"), settings.number("hidden"), seed);
  };
  return {make(texts.train), make(texts.test), texts.notes};
}

const Registration<DatasetEntry> registration{[] {
  DatasetEntry entry;
  entry.name = kDefaults.name;
  entry.summary = kDefaults.summary;
  entry.source = kDefaults.source;
  entry.settings = text_settings(kDefaults);
  entry.settings.push_back(
      SettingSpec::number("hidden", 0.15, "share of the tokens that are hidden and predicted", 0, 1).above_minimum());
  entry.load = load;
  return entry;
}()};

}  // namespace
}  // namespace dragonn::data
