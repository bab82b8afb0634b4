// SPDX-License-Identifier: MIT
/// Loader: a thread that prepares training batches ahead; EvaluationLoader: a rank's part of a split, once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/tensor.h"
#include "data/dataset.h"
#include "data/sampler.h"

namespace dragonn::data {

/// Samples in host memory.
struct Batch {
  Tensor inputs;                ///< [batch, height, width, channels], or [batch, features]; `count` rows are valid
  Buffer<std::int32_t> labels;  ///< [batch]
  std::size_t count = 0;        ///< less than `batch` only at the end of an evaluation
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;  ///< within the epoch

  /// The valid rows: [count * sample size] and [count].
  View<const float> input_view() const;
  View<const std::int32_t> label_view() const { return labels.view().subview(0, count); }
};

struct LoaderOptions {
  std::size_t batch = 32;  ///< samples per rank and step
  std::uint64_t seed = 1;
  int rank = 0;
  int world = 1;
  Remainder remainder = Remainder::kDrop;
  std::size_t prefetch = 2;  ///< batches prepared ahead, at least 1
};

/// Endless: epoch follows epoch. Batches depend on (options, epoch, step) alone; augmentation is keyed by (seed, epoch,
/// sample), so a sample looks the same whichever rank reads it. Memory for prefetch + 1 batches is allocated at
/// construction and recycled.
class Loader {
 public:
  /// Starts the thread, at epoch 0, step 0. @throws ConfigError (see ShardedSampler).
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);  // shared: by the local workers
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  std::size_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Waits for the next batch; it stays valid until the next call of next() or seek().
  /// Rethrows what reading it threw; after that only seek() goes on.
  const Batch& next();
  /// Makes next() return this step: for a resumed run. Prepared batches are thrown away.
  /// @throws Error unless step < steps_per_epoch().
  void seek(std::uint64_t epoch, std::uint64_t step);

 private:
  void run();
  void fill(Batch& batch, std::uint64_t epoch, std::uint64_t step);

  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  ShardedSampler sampler_;  // the thread's after construction
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

/// A rank's shard of a split (evaluation_shard), in order, without augmentation, read in the caller's thread: reading a
/// sample costs next to nothing beside its forward pass.
class EvaluationLoader {
 public:
  /// @throws Error if batch is 0.
  EvaluationLoader(std::shared_ptr<const Dataset> dataset, std::size_t batch, int rank, int world);

  /// The next batch, the last one perhaps smaller (`count`); null when the shard is done. Valid until the next call.
  const Batch* next();
  /// Starts over.
  void restart() { position_ = shard_.begin; }
  /// Samples of this rank.
  std::size_t size() const { return shard_.size(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
  EvaluationShard shard_;
  std::size_t position_;
  Batch batch_;
};

}  // namespace dragonn::data
