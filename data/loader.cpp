// SPDX-License-Identifier: MIT
#include "data/loader.h"

#include <utility>

#include "core/error.h"
#include "core/memory_ledger.h"

namespace dragonn::data {
namespace {

Batch make_batch(const BatchSource& source, const Device& reader) {
  const MemoryLabel label("batches");
  return source.make_batch(host_memory_for(reader));
}

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset, const BatchRules& rules, const Device& reader,
               std::size_t prefetch)
    : dataset_(std::move(dataset)), source_(dataset_->training(rules)), steps_per_epoch_(source_->steps_per_epoch()) {
  DRAGONN_CHECK(prefetch >= 1, "a loader must prepare at least 1 batch ahead");
  slots_.reserve(prefetch + 1);
  for (std::size_t i = 0; i <= prefetch; ++i) slots_.push_back(make_batch(*source_, reader));
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

std::size_t Loader::continue_epoch(std::uint64_t epoch, std::span<const EpochPart> earlier) {
  const std::lock_guard filling(filling_);
  return source_->continue_epoch(epoch, earlier);
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
      const std::lock_guard filling(filling_);
      source_->fill(epoch, step, batch);
      batch.epoch = epoch;
      batch.step = step;
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

EvaluationLoader::EvaluationLoader(std::shared_ptr<const Dataset> dataset, std::size_t batch, int rank, int world,
                                   const Device& reader)
    : dataset_(std::move(dataset)),
      source_(dataset_->evaluation(batch, rank, world)),
      batch_(make_batch(*source_, reader)) {}

const Batch* EvaluationLoader::next() {
  do {
    if (step_ == source_->steps_per_epoch()) return nullptr;
    source_->fill(0, step_, batch_);
    batch_.step = step_++;
  } while (batch_.count == 0);  // all its samples are bad
  return &batch_;
}

}  // namespace dragonn::data
