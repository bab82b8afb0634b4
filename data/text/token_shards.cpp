// SPDX-License-Identifier: MIT
/// The data set `token_shards`: windows of token shards, in an order that is shuffled in every epoch.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/settings.h"
#include "data/folder.h"
#include "data/sample_dataset.h"
#include "data/text/token_shard.h"

namespace dragonn::data {
namespace {

/// The windows of all shards of one split. A window lies in one shard; what does not fill one is left out. Sample i is
/// read where it lies, so nothing else of the shards is.
class TokenWindows final : public SampleDataset {
 public:
  TokenWindows(std::vector<TokenShard> shards, int vocabulary, std::int64_t window)
      : shards_(std::move(shards)), vocabulary_(vocabulary), window_(static_cast<std::size_t>(window)) {
    for (const TokenShard& shard : shards_) {
      const std::size_t tokens = shard.tokens().size();
      ends_.push_back(size() + (tokens == 0 ? 0 : (tokens - 1) / window_));
    }
  }

  std::size_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Shape sample_shape() const override { return {static_cast<std::int64_t>(window_)}; }
  int classes() const override { return vocabulary_; }
  TargetKind target_kind() const override { return TargetKind::kClassPerStep; }

  void read(std::size_t index, Rng* /*augmentation*/, std::span<float> sample,
            std::vector<std::int32_t>& labels) const override {
    const auto number = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    const TokenShard& shard = shards_[number];
    const std::size_t first = (index - (number == 0 ? 0 : ends_[number - 1])) * window_;
    const auto tokens = shard.tokens().subspan(first, window_ + 1);
    for (std::size_t i = 0; i <= window_; ++i) {
      if (tokens[i] >= vocabulary_) {
        throw DataError(fmt::format("{}: token {} at offset {} is beyond the vocabulary of {}", shard.path().string(),
                                    tokens[i], kShardHeaderBytes + (first + i) * sizeof tokens[i], vocabulary_));
      }
      if (i < window_) sample[i] = static_cast<float>(tokens[i]);
      if (i > 0) labels.push_back(tokens[i]);
    }
  }

 private:
  std::vector<TokenShard> shards_;
  int vocabulary_;
  std::size_t window_;
  std::vector<std::size_t> ends_;  ///< by shard: the windows up to its end
};

std::vector<TokenShard> open_shards(const std::filesystem::path& folder, const std::string& prefix) {
  std::vector<std::filesystem::path> paths;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".bin")) paths.push_back(file.path());
  }
  std::ranges::sort(paths);
  if (paths.empty()) throw ConfigError(fmt::format("no token shards '{}*.bin' in {}", prefix, folder.string()));
  std::vector<TokenShard> shards;
  for (const auto& path : paths) shards.emplace_back(path);
  return shards;
}

/// Returns the setting, or else the vocabulary that tokens.json names.
int vocabulary_of(const std::filesystem::path& folder, const Settings& settings) {
  constexpr std::int64_t kLargest = 65536;
  std::int64_t size = settings.integer("vocabulary");
  const std::filesystem::path path = folder / kTokensFile;
  if (size == 0) {
    try {
      size = nlohmann::json::parse(read_text_file(path)).at("vocabulary").get<std::int64_t>();
    } catch (const MissingFileError&) {
      throw ConfigError(fmt::format("there is no {}: set data.vocabulary to the number of tokens", path.string()));
    } catch (const nlohmann::json::exception&) {
      throw DataError(fmt::format("{} has no number \"vocabulary\"", path.string()));
    }
  }
  if (size < 1 || size > kLargest) {
    throw DataError(fmt::format("{}: a vocabulary of {}: expected 1 to {}", path.string(), size, kLargest));
  }
  return static_cast<int>(size);
}

DatasetSplits load(const Settings& settings, const std::string& folder, std::uint64_t /*seed*/) {
  require_own_folder(folder, "token_shards");
  const int vocabulary = vocabulary_of(folder, settings);
  const auto split = [&](const char* prefix) {
    return std::make_shared<const TokenWindows>(open_shards(folder, settings.text(prefix)), vocabulary,
                                                settings.integer("window"));
  };
  return {split("train_prefix"), split("test_prefix")};
}

const Registration<DatasetEntry> registration{
    {{"token_shards",
      "windows of token shards, which `dragonn tokenize` and llm.c write",
      "Radford et al., Language models are unsupervised multitask learners",
      {SettingSpec::integer("window", 1024, "tokens of a sample", 1),
       SettingSpec::integer("vocabulary", 0, "tokens that there are; 0: as tokens.json in data.path says", 0, 65536),
       SettingSpec::text("train_prefix", "train_", "beginning of the names of the shards to train on"),
       SettingSpec::text("test_prefix", "validation_", "beginning of the names of the shards to evaluate on")}},
     load}};

}  // namespace
}  // namespace dragonn::data
