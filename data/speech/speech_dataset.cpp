// SPDX-License-Identifier: MIT
#include "data/speech/speech_dataset.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "core/rng.h"

namespace dragonn::data {
namespace {

/// Turns utterances into rows of a batch.
class SpeechBatches : public BatchSource {
 public:
  SpeechBatches(const SpeechDataset& dataset, std::size_t batch) : dataset_(dataset), batch_(batch) {}

  Batch make_batch(const MemoryPlace& inputs) const override {
    Batch batch;
    batch.inputs = Buffer<float>(batch_ * dataset_.sample_shape().size(), inputs);
    batch.lengths.reserve(batch_);
    batch.offsets.reserve(batch_ + 1);
    return batch;
  }

 protected:
  /// @param longest utterance of all ranks' batches in this step.
  void put(std::span<const std::uint32_t> utterances, std::uint32_t longest, Batch& batch) const {
    const std::size_t bins = dataset_.spectrogram().bins(), frames = dataset_.padded(dataset_.frames(longest));
    batch.count = utterances.size();
    batch.steps = static_cast<std::int64_t>(frames);
    batch.sample_size = frames * bins;
    batch.labels.clear();
    batch.lengths.clear();
    batch.offsets.assign(1, 0);
    const std::span<float> inputs = batch.inputs.host();
    for (std::size_t row = 0; row < utterances.size(); ++row) {
      const Speech& speech = dataset_.utterance(utterances[row]);
      const std::size_t valid = dataset_.frames(utterances[row]);
      const std::span<float> values = inputs.subspan(row * batch.sample_size, batch.sample_size);
      dataset_.spectrogram().compute(speech.samples, values.first(valid * bins));
      std::ranges::fill(values.subspan(valid * bins), 0.0f);
      batch.lengths.push_back(static_cast<std::int32_t>(valid));
      batch.labels.insert(batch.labels.end(), speech.labels.begin(), speech.labels.end());
      batch.offsets.push_back(static_cast<std::int32_t>(batch.labels.size()));
    }
  }

  const SpeechDataset& dataset_;
  std::size_t batch_;
};

/// The training batches. The sampler draws an epoch's utterances, which are then sorted by length. Each step takes as
/// many consecutive ones as all ranks train on, and deals them out in turn. The steps are shuffled. An epoch that goes
/// on with other steps arranges the utterances that are left in the same way; which these are follows from the parts
/// before.
class TrainingSpeech final : public SpeechBatches {
 public:
  TrainingSpeech(const SpeechDataset& dataset, const BatchRules& rules)
      : SpeechBatches(dataset, rules.batch),
        rules_(rules),
        // The sampler deals for one rank that takes all of a step: it only decides which utterances an epoch has.
        sampler_(dataset.size(), {.batch = rules.batch * static_cast<std::size_t>(rules.world),
                                  .seed = rules.seed,
                                  .remainder = rules.remainder}),
        mine_(rules.batch) {}

  std::size_t steps_per_epoch() const override { return sampler_.steps_per_epoch(); }

  void fill(std::uint64_t epoch, std::uint64_t step, Batch& batch) override {
    if (!arranged_ || epoch != epoch_) arrange(epoch);
    const auto world = static_cast<std::size_t>(rules_.world), rank = static_cast<std::size_t>(rules_.rank);
    const std::size_t skipped = steps_per_epoch() - part_.steps();
    DRAGONN_CHECK(step >= skipped, "step {} of an epoch that goes on at step {}", step, skipped);
    const std::span<const std::uint32_t> all = part_.step(step - skipped);
    for (std::size_t row = 0; row < batch_; ++row) mine_[row] = all[row * world + rank];
    put(mine_, all.back(), batch);
  }

  std::size_t continue_epoch(std::uint64_t epoch, std::span<const EpochPart> earlier) override {
    continued_ = epoch;
    earlier_.assign(earlier.begin(), earlier.end());
    arrange(epoch);
    return part_.steps();
  }

 private:
  /// The utterances of a part of an epoch, step after step.
  struct Part {
    std::vector<std::uint32_t> order;  ///< by length
    std::vector<std::size_t> places;   ///< of the steps in `order`
    std::size_t per_step = 1;

    std::size_t steps() const { return places.size(); }
    std::span<const std::uint32_t> step(std::size_t index) const {
      return std::span(order).subspan(places[index] * per_step, per_step);
    }
  };

  void arrange(std::uint64_t epoch) {
    const std::span<const std::uint32_t> all = sampler_.permutation(epoch);
    std::vector<std::uint32_t> left(all.begin(), all.end());
    std::uint64_t number = 0;
    if (continued_ == epoch) {
      for (const EpochPart& part : earlier_) remove_done(arrange_part(epoch, number++, left, part), part.steps, left);
    }
    part_ = arrange_part(epoch, number, left, {.samples_per_step = batch_ * static_cast<std::size_t>(rules_.world)});
    epoch_ = epoch;
    arranged_ = true;
  }

  /// Arranges the utterances `left` of an epoch. @param number of the part in the epoch, from 0.
  Part arrange_part(std::uint64_t epoch, std::uint64_t number, const std::vector<std::uint32_t>& left,
                    const EpochPart& sizes) {
    Part part{.order = left, .places = {}, .per_step = static_cast<std::size_t>(sizes.samples_per_step)};
    const bool pads = rules_.remainder == Remainder::kPad && left.size() % part.per_step != 0;
    const std::size_t steps = left.size() / part.per_step + (pads ? 1 : 0);
    const std::span<const std::uint32_t> all = sampler_.permutation(epoch);
    part.order.resize(std::min(left.size(), steps * part.per_step));
    for (std::size_t i = 0; part.order.size() < steps * part.per_step; ++i) part.order.push_back(all[i % all.size()]);
    dataset_.sort_by_length(part.order);
    part.places.resize(steps);
    std::iota(part.places.begin(), part.places.end(), std::size_t{0});
    Rng rng =
        number == 0 ? Rng(rules_.seed, "speech steps", {epoch}) : Rng(rules_.seed, "speech steps", {epoch, number});
    for (std::size_t i = steps; i > 1; --i) std::swap(part.places[i - 1], part.places[rng.below(i)]);
    return part;
  }

  /// Removes the utterances of the first `steps` steps of a part from `left`, which keeps its order.
  static void remove_done(const Part& part, std::uint64_t steps, std::vector<std::uint32_t>& left) {
    std::unordered_set<std::uint32_t> done;
    for (std::size_t step = 0; step < std::min<std::uint64_t>(steps, part.steps()); ++step) {
      const std::span<const std::uint32_t> utterances = part.step(step);
      done.insert(utterances.begin(), utterances.end());
    }
    std::erase_if(left, [&](std::uint32_t utterance) { return done.contains(utterance); });
  }

  BatchRules rules_;
  ShardedSampler sampler_;
  std::vector<std::uint32_t> mine_;
  Part part_;  // the last of epoch_
  std::optional<std::uint64_t> continued_;
  std::vector<EpochPart> earlier_;  // of the continued epoch
  std::uint64_t epoch_ = 0;
  bool arranged_ = false;
};

/// The evaluation batches: every world-th utterance in the order of lengths, so that all ranks have equal work.
class EvaluationSpeech final : public SpeechBatches {
 public:
  EvaluationSpeech(const SpeechDataset& dataset, std::size_t batch, int rank, int world)
      : SpeechBatches(dataset, batch) {
    std::vector<std::uint32_t> all(dataset.size());
    std::iota(all.begin(), all.end(), 0u);
    dataset.sort_by_length(all);
    for (auto i = static_cast<std::size_t>(rank); i < all.size(); i += static_cast<std::size_t>(world)) {
      mine_.push_back(all[i]);
    }
  }

  std::size_t steps_per_epoch() const override { return (mine_.size() + batch_ - 1) / batch_; }

  void fill(std::uint64_t /*epoch*/, std::uint64_t step, Batch& batch) override {
    const std::size_t begin = step * batch_;
    const auto rows = std::span<const std::uint32_t>(mine_).subspan(begin, std::min(batch_, mine_.size() - begin));
    put(rows, rows.back(), batch);
  }

 private:
  std::vector<std::uint32_t> mine_;
};

}  // namespace

SpeechDataset::SpeechDataset(std::vector<Speech> utterances, Alphabet alphabet,
                             std::shared_ptr<const Spectrogram> spectrogram, std::size_t frame_multiple)
    : utterances_(std::move(utterances)),
      alphabet_(std::move(alphabet)),
      spectrogram_(std::move(spectrogram)),
      frame_multiple_(frame_multiple) {
  DRAGONN_CHECK(frame_multiple >= 1, "frames padded to a multiple of {}", frame_multiple);
}

Shape SpeechDataset::sample_shape() const {
  std::size_t longest = 1;
  for (std::size_t i = 0; i < size(); ++i) longest = std::max(longest, frames(i));
  return {static_cast<std::int64_t>(padded(longest)), static_cast<std::int64_t>(spectrogram_->bins())};
}

std::string SpeechDataset::text_of(std::span<const std::int32_t> labels) const {
  return alphabet_.decode({labels.begin(), labels.end()});
}

std::unique_ptr<BatchSource> SpeechDataset::training(const BatchRules& rules) const {
  return std::make_unique<TrainingSpeech>(*this, rules);
}

std::unique_ptr<BatchSource> SpeechDataset::evaluation(std::size_t batch, int rank, int world) const {
  DRAGONN_CHECK(batch >= 1, "a batch must hold at least 1 sample");
  return std::make_unique<EvaluationSpeech>(*this, batch, rank, world);
}

std::size_t SpeechDataset::padded(std::size_t frames) const {
  return (frames + frame_multiple_ - 1) / frame_multiple_ * frame_multiple_;
}

void SpeechDataset::sort_by_length(std::vector<std::uint32_t>& indices) const {
  std::ranges::sort(indices, {}, [&](std::uint32_t i) { return std::pair(utterances_[i].samples.size(), i); });
}

}  // namespace dragonn::data
