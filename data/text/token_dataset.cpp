// SPDX-License-Identifier: MIT
#include "data/text/token_dataset.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::data {
namespace {

/// The windows of one rank's strips of a text.
class StripBatches final : public BatchSource {
 public:
  /// @param strips this rank's ranges of input tokens; the predicted tokens lie one further.
  StripBatches(std::span<const std::int32_t> tokens, std::vector<EvaluationShard> strips, std::size_t window,
               std::size_t steps)
      : tokens_(tokens), strips_(std::move(strips)), window_(window), steps_(steps) {}

  std::size_t steps_per_epoch() const override { return steps_; }

  Batch make_batch(const MemoryPlace& inputs) const override {
    Batch batch;
    batch.inputs = Tensor(Shape{static_cast<std::int64_t>(strips_.size()), static_cast<std::int64_t>(window_)}, inputs);
    batch.sample_size = window_;
    batch.labels.resize(strips_.size() * window_);
    return batch;
  }

  void fill(std::uint64_t /*epoch*/, std::uint64_t step, Batch& batch) override {
    batch.count = strips_.size();
    batch.begins = step == 0;
    const std::span<float> inputs = batch.inputs.host();
    for (std::size_t row = 0; row < strips_.size(); ++row) {
      const EvaluationShard& strip = strips_[row];
      for (std::size_t i = 0; i < window_; ++i) {
        const std::size_t place = strip.begin + step * window_ + i;
        const bool inside = place < strip.end;
        inputs[row * window_ + i] = inside ? static_cast<float>(tokens_[place]) : 0.0f;
        batch.labels[row * window_ + i] = inside ? tokens_[place + 1] : kIgnoredLabel;
      }
    }
  }

 private:
  std::span<const std::int32_t> tokens_;
  std::vector<EvaluationShard> strips_;
  std::size_t window_;
  std::size_t steps_;
};

}  // namespace

TokenDataset::TokenDataset(std::vector<std::int32_t> tokens, int vocabulary, std::int64_t window)
    : tokens_(std::move(tokens)), vocabulary_(vocabulary), window_(window) {
  constexpr int kExact = 1 << 24;  // tokens travel as floats
  DRAGONN_CHECK(vocabulary >= 1 && vocabulary <= kExact, "a vocabulary of {}: should be 1 to {}", vocabulary, kExact);
  DRAGONN_CHECK(window >= 1, "a window of {} time steps", window);
}

std::unique_ptr<BatchSource> TokenDataset::training(const BatchRules& rules) const {
  if (rules.batch == 0) throw ConfigError("batch size 0: it must be at least 1");
  const auto window = static_cast<std::size_t>(window_);
  const std::size_t strips = rules.batch * static_cast<std::size_t>(rules.world);
  const std::size_t length = tokens_.empty() ? 0 : (tokens_.size() - 1) / strips;
  if (length < window) {
    throw ConfigError(
        fmt::format("a step takes {} workers x batch size {} windows of {} tokens, but the text has {} "
                    "tokens: use a smaller batch size or window, or fewer workers",
                    rules.world, rules.batch, window, tokens_.size()));
  }
  std::vector<EvaluationShard> mine;
  for (std::size_t row = 0; row < rules.batch; ++row) {
    const std::size_t begin = (static_cast<std::size_t>(rules.rank) * rules.batch + row) * length;
    mine.push_back({begin, begin + length});
  }
  return std::make_unique<StripBatches>(tokens_, std::move(mine), window, length / window);
}

std::unique_ptr<BatchSource> TokenDataset::evaluation(std::size_t batch, int rank, int world) const {
  DRAGONN_CHECK(batch >= 1, "a batch must hold at least 1 sample");
  const std::size_t predicted = tokens_.empty() ? 0 : tokens_.size() - 1;
  const auto strips = static_cast<int>(batch) * world;
  std::vector<EvaluationShard> mine;
  std::size_t longest = 0;
  for (std::size_t row = 0; row < batch; ++row) {
    mine.push_back(evaluation_shard(predicted, rank * static_cast<int>(batch) + static_cast<int>(row), strips));
    longest = std::max(longest, mine.back().size());
  }
  const auto window = static_cast<std::size_t>(window_);
  return std::make_unique<StripBatches>(tokens_, std::move(mine), window, (longest + window - 1) / window);
}

}  // namespace dragonn::data
