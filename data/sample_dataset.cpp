// SPDX-License-Identifier: MIT
#include "data/sample_dataset.h"

#include <algorithm>
#include <optional>

#include "core/error.h"

namespace dragonn::data {
namespace {

bool has_label_lists(TargetKind kind) {
  return kind == TargetKind::kClassSet || kind == TargetKind::kClassSequence;
}

/// Fills batches with the samples that a subclass chooses.
class SampleBatches : public BatchSource {
 public:
  SampleBatches(const SampleDataset& dataset, std::size_t batch) : dataset_(dataset), batch_(batch) {}

  Batch make_batch(const MemoryPlace& inputs) const override {
    Batch batch;
    batch.sample_size = dataset_.sample_shape().size();
    batch.inputs = Buffer<float>(batch_ * batch.sample_size, inputs);
    batch.labels.reserve(batch_);
    if (has_label_lists(dataset_.target_kind())) batch.offsets.reserve(batch_ + 1);
    return batch;
  }

 protected:
  void clear(Batch& batch) const {
    batch.count = 0;
    batch.labels.clear();
    batch.offsets.clear();
    if (has_label_lists(dataset_.target_kind())) batch.offsets.push_back(0);
  }
  void append(std::size_t index, Rng* augmentation, Batch& batch) const {
    const std::span<float> row = batch.inputs.host().subspan(batch.count * batch.sample_size, batch.sample_size);
    dataset_.read(index, augmentation, row, batch.labels);
    if (!batch.offsets.empty()) batch.offsets.push_back(static_cast<std::int32_t>(batch.labels.size()));
    ++batch.count;
  }

  const SampleDataset& dataset_;
  std::size_t batch_;
};

class TrainingBatches final : public SampleBatches {
 public:
  TrainingBatches(const SampleDataset& dataset, const BatchRules& rules)
      : SampleBatches(dataset, rules.batch),
        seed_(rules.seed),
        sampler_({dataset.size(), rules.batch, rules.seed, rules.rank, rules.world, rules.remainder}) {}

  std::size_t steps_per_epoch() const override { return sampler_.steps_per_epoch(); }
  void fill(std::uint64_t epoch, std::uint64_t step, Batch& batch) override {
    clear(batch);
    for (const std::uint32_t sample : sampler_.batch(epoch, step)) {
      Rng augmentation(seed_, "augment", {epoch, sample});
      append(sample, &augmentation, batch);
    }
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
  EvaluationBatches(const SampleDataset& dataset, std::size_t batch, int rank, int world)
      : SampleBatches(dataset, batch), shard_(evaluation_shard(dataset.size(), rank, world)) {}

  std::size_t steps_per_epoch() const override { return (shard_.size() + batch_ - 1) / batch_; }
  void fill(std::uint64_t /*epoch*/, std::uint64_t step, Batch& batch) override {
    clear(batch);
    const std::size_t begin = shard_.begin + step * batch_;
    for (std::size_t index = begin; index < std::min(begin + batch_, shard_.end); ++index) {
      append(index, nullptr, batch);
    }
  }

 private:
  EvaluationShard shard_;
};

}  // namespace

std::unique_ptr<BatchSource> SampleDataset::training(const BatchRules& rules) const {
  return std::make_unique<TrainingBatches>(*this, rules);
}

std::unique_ptr<BatchSource> SampleDataset::evaluation(std::size_t batch, int rank, int world) const {
  DRAGONN_CHECK(batch >= 1, "a batch must hold at least 1 sample");
  return std::make_unique<EvaluationBatches>(*this, batch, rank, world);
}

}  // namespace dragonn::data
