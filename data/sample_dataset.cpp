// SPDX-License-Identifier: MIT
#include "data/sample_dataset.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.h"

namespace dragonn::data {
namespace {

class OneByOne final : public SampleReader {
 public:
  explicit OneByOne(const SampleDataset& dataset) : dataset_(dataset) {}
  void read(std::span<const std::uint32_t> samples, const Augmentation* augmentation, Batch& batch) override {
    for (const std::uint32_t sample : samples) {
      const std::span<float> row = batch.inputs.host().subspan(batch.count * batch.sample_size, batch.sample_size);
      std::optional<Rng> stream;
      if (augmentation != nullptr) stream = augmentation->stream(sample);
      dataset_.read(sample, stream ? &*stream : nullptr, row, batch.labels);
      if (!batch.offsets.empty()) batch.offsets.push_back(static_cast<std::int32_t>(batch.labels.size()));
      ++batch.count;
    }
  }

 private:
  const SampleDataset& dataset_;
};

/// Fills batches with the samples that a subclass chooses.
class SampleBatches : public BatchSource {
 public:
  SampleBatches(const SampleDataset& dataset, std::unique_ptr<SampleReader> reader, std::size_t batch)
      : dataset_(dataset), reader_(std::move(reader)), batch_(batch) {}

  Batch make_batch(const MemoryPlace& inputs) const override {
    Batch batch;
    batch.sample_size = dataset_.sample_shape().size();
    batch.inputs = Buffer<float>(batch_ * batch.sample_size, inputs);
    batch.labels.reserve(batch_);
    if (has_label_lists()) batch.offsets.reserve(batch_ + 1);
    return batch;
  }

 protected:
  void read(std::span<const std::uint32_t> samples, const Augmentation* augmentation, Batch& batch) const {
    batch.count = 0;
    batch.labels.clear();
    batch.offsets.assign(has_label_lists() ? 1 : 0, 0);
    reader_->read(samples, augmentation, batch);
  }
  std::size_t batch() const { return batch_; }

 private:
  bool has_label_lists() const {
    const TargetKind kind = dataset_.target_kind();
    return kind == TargetKind::kClassSet || kind == TargetKind::kClassSequence;
  }

  const SampleDataset& dataset_;
  std::unique_ptr<SampleReader> reader_;
  std::size_t batch_;
};

class TrainingBatches final : public SampleBatches {
 public:
  TrainingBatches(const SampleDataset& dataset, std::unique_ptr<SampleReader> reader, const BatchRules& rules)
      : SampleBatches(dataset, std::move(reader), rules.batch), seed_(rules.seed), sampler_(dataset.size(), rules) {}

  std::size_t steps_per_epoch() const override { return sampler_.steps_per_epoch(); }
  void fill(std::uint64_t epoch, std::uint64_t step, Batch& batch) override {
    const Augmentation augmentation{seed_, epoch};
    read(sampler_.batch(epoch, step), &augmentation, batch);
  }
  std::size_t continue_epoch(std::uint64_t epoch, std::span<const EpochPart> earlier) override {
    return sampler_.continue_epoch(epoch, samples_in(earlier));
  }

 private:
  std::uint64_t seed_;
  ShardedSampler sampler_;
};

class EvaluationBatches final : public SampleBatches {
 public:
  EvaluationBatches(const SampleDataset& dataset, std::unique_ptr<SampleReader> reader, std::size_t batch,
                    EvaluationShard shard)
      : SampleBatches(dataset, std::move(reader), batch), shard_(shard) {
    samples_.reserve(batch);
  }

  std::size_t steps_per_epoch() const override { return (shard_.size() + batch() - 1) / batch(); }
  void fill(std::uint64_t /*epoch*/, std::uint64_t step, Batch& filled) override {
    filled.first = shard_.begin + step * batch();
    samples_.resize(std::min(batch(), shard_.end - filled.first));
    std::iota(samples_.begin(), samples_.end(), static_cast<std::uint32_t>(filled.first));
    read(samples_, nullptr, filled);
  }

 private:
  EvaluationShard shard_;
  std::vector<std::uint32_t> samples_;  // of the batch that is filled
};

}  // namespace

std::unique_ptr<SampleReader> SampleDataset::reader(int /*rank*/) const {
  return std::make_unique<OneByOne>(*this);
}

std::unique_ptr<BatchSource> SampleDataset::training(const BatchRules& rules) const {
  return std::make_unique<TrainingBatches>(*this, reader(rules.rank), rules);
}

std::unique_ptr<BatchSource> SampleDataset::evaluation(std::size_t batch, int rank, int world) const {
  DRAGONN_CHECK(batch >= 1, "a batch must hold at least 1 sample");
  return std::make_unique<EvaluationBatches>(*this, reader(rank), batch, shard(rank, world));
}

}  // namespace dragonn::data
