// SPDX-License-Identifier: MIT
#include "data/loader.h"

#include <algorithm>
#include <span>
#include <utility>

namespace dragonn::data {
namespace {

Batch make_batch(const Dataset& dataset, std::size_t size) {
  const Shape sample = dataset.sample_shape();
  std::vector<std::int64_t> extents{static_cast<std::int64_t>(size)};
  extents.insert(extents.end(), sample.extents().begin(), sample.extents().end());
  return {Tensor(Shape(extents)), Buffer<std::int32_t>(size), 0, 0, 0};
}

/// Reads one sample into row `row`.
void read_row(const Dataset& dataset, std::size_t index, Rng* augmentation, Batch& batch, std::size_t row) {
  const std::size_t size = batch.inputs.size() / batch.labels.size();
  batch.labels.host()[row] = dataset.read(index, augmentation, batch.inputs.host().subspan(row * size, size));
}

SamplerOptions sampler_options(const Dataset& dataset, const LoaderOptions& options) {
  return {dataset.size(), options.batch, options.seed, options.rank, options.world, options.remainder};
}

}  // namespace

View<const float> Batch::input_view() const {
  if (count == 0) return {};
  return inputs.view().subview(0, inputs.size() / labels.size() * count);
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      options_(options),
      sampler_(sampler_options(*dataset_, options)),
      steps_per_epoch_(sampler_.steps_per_epoch()) {
  DRAGONN_CHECK(options.prefetch >= 1, "a loader must prepare at least 1 batch ahead");
  slots_.reserve(options.prefetch + 1);
  for (std::size_t i = 0; i <= options.prefetch; ++i) slots_.push_back(make_batch(*dataset_, options.batch));
  thread_ = std::thread(&Loader::run, this);
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

const Batch& Loader::next() {
  std::unique_lock lock(mutex_);
  lent_ = false;
  changed_.notify_all();
  changed_.wait(lock, [&] { return ready_ > 0 || failure_; });
  if (ready_ == 0) std::rethrow_exception(failure_);
  const Batch& batch = slots_[head_];
  head_ = (head_ + 1) % slots_.size();
  --ready_;
  lent_ = true;
  return batch;
}

void Loader::seek(std::uint64_t epoch, std::uint64_t step) {
  DRAGONN_CHECK(step < steps_per_epoch_, "step {} of an epoch of {} steps", step, steps_per_epoch_);
  {
    const std::lock_guard lock(mutex_);
    // The slot being prepared stays where it is: the thread finishes it, sees the new generation and fills it anew.
    head_ = (head_ + ready_) % slots_.size();
    ready_ = 0;
    lent_ = false;
    epoch_ = epoch;
    step_ = step;
    ++generation_;
    failure_ = nullptr;
  }
  changed_.notify_all();
}

void Loader::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || (!failure_ && ready_ + (lent_ ? 1 : 0) < slots_.size()); });
    if (stopping_) return;
    Batch& batch = slots_[(head_ + ready_) % slots_.size()];
    const std::uint64_t epoch = epoch_, step = step_, generation = generation_;
    std::exception_ptr failure;
    lock.unlock();
    try {
      fill(batch, epoch, step);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (generation != generation_) continue;
    failure_ = failure;
    if (!failure) {
      ++ready_;
      const bool last = step + 1 == steps_per_epoch_;
      epoch_ = last ? epoch + 1 : epoch;
      step_ = last ? 0 : step + 1;
    }
    changed_.notify_all();
  }
}

void Loader::fill(Batch& batch, std::uint64_t epoch, std::uint64_t step) {
  const std::span<const std::uint32_t> samples = sampler_.batch(epoch, step);
  for (std::size_t row = 0; row < samples.size(); ++row) {
    Rng augmentation(options_.seed, "augment", {epoch, samples[row]});
    read_row(*dataset_, samples[row], &augmentation, batch, row);
  }
  batch.count = samples.size();
  batch.epoch = epoch;
  batch.step = step;
}

EvaluationLoader::EvaluationLoader(std::shared_ptr<const Dataset> dataset, std::size_t batch, int rank, int world)
    : dataset_(std::move(dataset)),
      shard_(evaluation_shard(dataset_->size(), rank, world)),
      position_(shard_.begin),
      batch_(make_batch(*dataset_, batch)) {
  DRAGONN_CHECK(batch >= 1, "an evaluation batch must hold at least 1 sample");
}

const Batch* EvaluationLoader::next() {
  if (position_ == shard_.end) return nullptr;
  const std::size_t size = batch_.labels.size();
  batch_.count = std::min(size, shard_.end - position_);
  batch_.step = (position_ - shard_.begin) / size;
  for (std::size_t row = 0; row < batch_.count; ++row) read_row(*dataset_, position_ + row, nullptr, batch_, row);
  position_ += batch_.count;
  return &batch_;
}

}  // namespace dragonn::data
