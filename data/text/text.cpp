// SPDX-License-Identifier: MIT
/// The data sets `text`, `ptb`, `wikitext2` and `tinyshakespeare`: running text, of which the next token is predicted.
#include <memory>
#include <string>
#include <utility>

#include "data/text/text_files.h"
#include "data/text/token_dataset.h"

namespace dragonn::data {
namespace {

DatasetSplits load(const std::string& name, const Settings& settings, const std::string& folder) {
  EncodedTexts texts = load_texts(name, settings, folder);
  const auto make = [&](std::vector<std::int32_t>& tokens) {
    return std::make_shared<const TokenDataset>(std::move(tokens), static_cast<int>(texts.vocabulary.size()),
                                                settings.integer("window"));
  };
  return {make(texts.train), make(texts.test), texts.notes};
}

DatasetEntry entry(const TextDefaults& defaults) {
  return {{defaults.name, defaults.summary, defaults.source, text_settings(defaults)},
          /*needs_path=*/true,
          {},
          0,
          [name = defaults.name](const Settings& settings, const std::string& folder, std::uint64_t /*seed*/) {
            return load(name, settings, folder);
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

}  // namespace
}  // namespace dragonn::data
