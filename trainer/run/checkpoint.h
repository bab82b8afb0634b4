// SPDX-License-Identifier: MIT
/// Checkpoint: the state that makes a resumed run bit-identical to an uninterrupted one, saved atomically.
///
/// A checkpoint is a folder `checkpoints/step-00000120/` with `model.safetensors` (rank 0: parameters, optimizer,
/// progress, averaged batch-norm statistics), `rank-0000.safetensors` ... (residuals, method state, batch-norm
/// statistics of that rank) and `DONE`, written last. It is prepared in a folder whose name ends in `.partial` and
/// renamed when every rank's file is on disk. Files are safetensors with a checksum per field (core/archive.h). All
/// carry the save that they belong to - its step, its number of workers and a random token - and a rank's file its
/// rank, so that files of two saves, or of two ranks, are not mixed up.
///
/// A folder with a checkpoint's name and without a DONE that names this step is therefore no save that was cut off. It
/// is a damaged checkpoint, which a run does not pass over for an older one, or a user's own folder if no file in it
/// has a name that a save gives. What no save has written is never removed: it is renamed where it is in the way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "core/archive.h"
#include "exchange/resize.h"

namespace dragonn::trainer {

class CheckpointStore {
 public:
  /// Keeps checkpoints in `folder`, which is created when the first is saved.
  explicit CheckpointStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Collective. Saves a checkpoint, of rank 0's step: ranks may have done different numbers of steps. `fill` puts this
  /// rank's state into its archive, and on rank 0 the model's state into the model's archive, which is null on other
  /// ranks. An earlier save of this step is replaced. Anything else that has this checkpoint's name is renamed, with a
  /// warning: another step's, a damaged one, a user's own folder, a checkpoint with a file that a user has added.
  /// @throws SystemError on every rank if a file cannot be written; the partial folder is removed, older ones stay.
  void save(comm::Communicator& communicator, std::uint64_t step,
            const std::function<void(Archive* model, Archive& rank)>& fill) const;
  /// Removes all but the newest `keep` complete checkpoints, never that of `best_step` nor one with a file that a user
  /// has added; and what saves that were cut off have left. Rank 0 only.
  void prune(std::int64_t keep, std::optional<std::uint64_t> best_step) const;

  /// Returns the complete checkpoints, oldest first: the folders that are named after the step in their DONE.
  std::vector<std::filesystem::path> list() const;
  /// Returns the newest complete checkpoint, from which a run resumes; empty if there is none. Warns of a user's own
  /// folders, and of checkpoints under another name than their step's: they are not listed and never removed, and a run
  /// resumes from one where its path is given. Reads nothing that could block. @throws DataError if a damaged
  /// checkpoint is newer; the error names it, its damage and the newest complete one. SystemError if a folder cannot be
  /// read.
  std::filesystem::path newest() const;
  static std::filesystem::path folder_name(std::uint64_t step);
  /// @throws ConfigError if a folder is no complete checkpoint, by its DONE.
  static void require_complete(const std::filesystem::path& checkpoint);

  /// Reads the model's archive of a checkpoint folder.
  /// @throws ConfigError if it is no complete checkpoint, DataError (file, field, offset) if it is damaged or of
  /// another save than DONE.
  static Archive read_model(const std::filesystem::path& checkpoint);
  /// Returns the number of workers that saved a checkpoint: it has the files of ranks 0 to that number less one.
  static int workers(const Archive& model);
  /// Reads the archive of one of these ranks, and no other file but DONE: a run of any number of workers takes the
  /// ranks that concern it, one after the other. @throws DataError if the file is missing (names it), damaged, another
  /// rank's or of another save.
  static Archive read_rank(const std::filesystem::path& checkpoint, int rank);

 private:
  std::filesystem::path folder_;
};

/// The place from which a group of workers takes the state that another group left.
class StateSource {
 public:
  virtual ~StateSource() = default;
  /// Returns the state that all ranks share. Reads it at the first call.
  virtual const Archive& model() = 0;
  /// Returns whether the model's parameters and an optimizer that all ranks share are no part of model(): the training
  /// state that takes over has them.
  virtual bool leaves_values() const { return false; }
  /// Reads the state of one of the ranks that the group had. It is valid until the next call.
  virtual const Archive& rank(int rank) = 0;
  /// Returns the name for messages.
  virtual std::string name() const = 0;
  /// Returns the number of those ranks.
  virtual int workers() = 0;
  /// Returns whether rank r of a group of `size` is what rank r was, and goes on as if it had not stopped.
  virtual bool has_same_ranks(int size) { return workers() == size; }
  /// Returns whose state rank `rank` of another group takes over.
  virtual std::vector<exchange::RankToTake> ranks_to_take(int rank, int size) {
    return exchange::ranks_to_take(rank, size, workers());
  }
};

/// A checkpoint's folder. @throws as CheckpointStore::read_model and read_rank.
class CheckpointSource final : public StateSource {
 public:
  explicit CheckpointSource(std::filesystem::path checkpoint) : checkpoint_(std::move(checkpoint)) {}
  const Archive& model() override {
    if (!model_) model_ = CheckpointStore::read_model(checkpoint_);
    return *model_;
  }
  const Archive& rank(int rank) override { return rank_.emplace(CheckpointStore::read_rank(checkpoint_, rank)); }
  std::string name() const override { return checkpoint_.string(); }
  int workers() override { return CheckpointStore::workers(model()); }

 private:
  std::filesystem::path checkpoint_;
  std::optional<Archive> model_, rank_;
};

}  // namespace dragonn::trainer
