// SPDX-License-Identifier: MIT
/// Loader: a thread that prepares training batches ahead. EvaluationLoader: a rank's part of a split, once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"

namespace dragonn::data {

/// Endless training batches, epoch after epoch. A batch depends on (rules, epoch, step) alone. Memory for prefetch + 1
/// batches is allocated at construction and recycled.
class Loader {
 public:
  /// Starts the thread, at epoch 0, step 0.
  /// @param dataset shared by the workers of a process.  @param reader the device that batches go to: they lie in host
  /// memory from which it copies fast.  @param prefetch batches prepared ahead, at least 1. @throws ConfigError (see
  /// Dataset::training).
  Loader(std::shared_ptr<const Dataset> dataset, const BatchRules& rules, const Device& reader = {},
         std::size_t prefetch = 2);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  std::size_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Waits for the next batch, which stays valid until the next call of next() or seek(). Rethrows what reading it
  /// threw; after that only seek() goes on.
  const Batch& next();
  /// Makes next() return this step, for a resumed run. Prepared batches are thrown away.
  /// @throws Error unless step < steps_per_epoch().
  void seek(std::uint64_t epoch, std::uint64_t step);
  /// Deals out what earlier parts of an epoch left, in its last steps; see BatchSource::continue_epoch(). Prepared
  /// batches of that epoch no longer count: seek() comes next.
  std::size_t continue_epoch(std::uint64_t epoch, std::span<const EpochPart> earlier);

 private:
  void run();

  std::shared_ptr<const Dataset> dataset_;
  std::unique_ptr<BatchSource> source_;  // after construction used with filling_ held
  std::mutex filling_;
  std::size_t steps_per_epoch_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Slots form a ring: `ready_` prepared batches starting at `head_`, then the one being prepared; the slot before
  // `head_` is lent to the caller while `lent_`.
  std::vector<Batch> slots_;
  std::size_t head_ = 0;
  std::size_t ready_ = 0;
  bool lent_ = false;
  // The position of the next batch to prepare. Every seek starts a new generation, which the thread sees.
  std::uint64_t epoch_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t generation_ = 0;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::thread thread_;
};

/// A rank's shard of a split, in order, without augmentation, read in the caller's thread.
class EvaluationLoader {
 public:
  /// @param reader as in Loader.  @throws Error if batch is 0.
  EvaluationLoader(std::shared_ptr<const Dataset> dataset, std::size_t batch, int rank, int world,
                   const Device& reader = {});

  /// Returns the next batch; the last one may be smaller (`count`). Null when the shard is done. Valid until the next
  /// call.
  const Batch* next();
  /// Starts over.
  void restart() { step_ = 0; }
  const Dataset& dataset() const { return *dataset_; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::unique_ptr<BatchSource> source_;
  std::size_t step_ = 0;
  Batch batch_;
};

}  // namespace dragonn::data
