// SPDX-License-Identifier: MIT
#include "data/text/token_dataset.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::data {
namespace {

/// Cuts a text, or what parts of an epoch left of it, into strips of equal length.
class TextCut {
 public:
  /// @param predicted tokens of the whole text.
  explicit TextCut(std::size_t predicted) : total_(predicted) {}

  /// Returns the length of each of `strips` strips.
  std::size_t length(std::size_t strips) const { return total_ / strips; }
  /// Takes the first `done` tokens of each of `strips` strips away.
  void take(std::size_t strips, std::size_t done) {
    const std::size_t cut = length(strips);
    parts_.push_back({strips, cut, std::min(done, cut)});
    total_ -= strips * std::min(done, cut);
  }
  /// Returns the place in the text of a place in what is left. O(parts).
  std::size_t in_text(std::size_t place) const {
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      const std::size_t rest = part->length - part->done, in_strips = part->strips * rest;
      // Behind the strips lies what was too short for one token more in each.
      place = place < in_strips ? place / rest * part->length + part->done + place % rest
                                : part->strips * part->length + (place - in_strips);
    }
    return place;
  }

 private:
  struct Part {
    std::size_t strips, length, done;
  };
  std::size_t total_;  // tokens that are left
  std::vector<Part> parts_;
};

/// The windows of one rank's strips of a text.
class StripBatches : public BatchSource {
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
    fill_window(step, strips_, TextCut(tokens_.size() - 1), batch);
  }

 protected:
  /// Fills a batch with a window of each strip. @param cut of the text that the strips are of.
  void fill_window(std::size_t step, const std::vector<EvaluationShard>& strips, const TextCut& cut,
                   Batch& batch) const {
    batch.count = strips.size();
    batch.begins = step == 0;
    const std::span<float> inputs = batch.inputs.host();
    for (std::size_t row = 0; row < strips.size(); ++row) {
      const EvaluationShard& strip = strips[row];
      for (std::size_t i = 0; i < window_; ++i) {
        const std::size_t place = strip.begin + step * window_ + i;
        const bool inside = place < strip.end;
        const std::size_t token = inside ? cut.in_text(place) : 0;
        inputs[row * window_ + i] = inside ? static_cast<float>(tokens_[token]) : 0.0f;
        batch.labels[row * window_ + i] = inside ? tokens_[token + 1] : kIgnoredLabel;
      }
    }
  }
  std::size_t window() const { return window_; }

 private:
  std::span<const std::int32_t> tokens_;
  std::vector<EvaluationShard> strips_;
  std::size_t window_;
  std::size_t steps_;
};

/// Returns one rank's strips.
std::vector<EvaluationShard> strips_of(const BatchRules& rules, std::size_t length) {
  std::vector<EvaluationShard> mine;
  for (std::size_t row = 0; row < rules.batch; ++row) {
    const std::size_t begin = (static_cast<std::size_t>(rules.rank) * rules.batch + row) * length;
    mine.push_back({begin, begin + length});
  }
  return mine;
}

/// The training batches: those of a whole text in every epoch, but for one that goes on with other strips.
class TrainingStrips final : public StripBatches {
 public:
  /// @param length of the strips of a whole text.
  TrainingStrips(std::span<const std::int32_t> tokens, const BatchRules& rules, std::size_t length, std::size_t window)
      : StripBatches(tokens, strips_of(rules, length), window, length / window),
        rules_(rules),
        predicted_(tokens.size() - 1),
        cut_(predicted_) {}

  void fill(std::uint64_t epoch, std::uint64_t step, Batch& batch) override {
    if (continued_ != epoch) return StripBatches::fill(epoch, step, batch);
    DRAGONN_CHECK(step >= first_step_, "step {} of an epoch that goes on at step {}", step, first_step_);
    fill_window(step - first_step_, rest_, cut_, batch);
  }

  std::size_t continue_epoch(std::uint64_t epoch, std::span<const EpochPart> earlier) override {
    cut_ = TextCut(predicted_);
    for (const EpochPart& part : earlier) cut_.take(part.samples_per_step, part.steps * window());
    const std::size_t length = cut_.length(rules_.batch * static_cast<std::size_t>(rules_.world));
    const std::size_t steps = length / window();
    rest_ = strips_of(rules_, length);
    continued_ = epoch;
    first_step_ = steps_per_epoch() - steps;
    return steps;
  }

 private:
  BatchRules rules_;
  std::size_t predicted_;
  TextCut cut_;                        // of the continued epoch
  std::vector<EvaluationShard> rest_;  // likewise: this rank's strips of what is left
  std::optional<std::uint64_t> continued_;
  std::size_t first_step_ = 0;
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
  return std::make_unique<TrainingStrips>(tokens_, rules, length, window);
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
