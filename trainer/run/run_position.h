// SPDX-License-Identifier: MIT
/// RunPosition: the place of a run in its data and schedules, whatever the number of samples that its steps took.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/archive.h"
#include "data/batch.h"

namespace dragonn::trainer {

/// A place in the data: complete epochs, and the parts of the next one that are done. A part ends where the number of
/// samples per step changes, which is the number of workers times the samples that each takes. The last part is the
/// run's own, also at the beginning of an epoch, where it has no steps yet.
struct DataPosition {
  std::uint64_t epoch = 0;
  std::vector<data::EpochPart> parts = {};

  std::uint64_t samples() const { return data::samples_in(parts); }  ///< done of the epoch
};

/// Saves a position below "position/" of an archive: rank 0's in the model's, every rank's own in its own.
void save_position(Archive& archive, const DataPosition& position);
DataPosition load_position(const Archive& archive);
/// Returns whether an archive has a position. Ranks' archives of earlier versions have none.
bool has_position(const Archive& archive);

/// Converts the steps that a run has done to its place in the data, and to the step of its schedules.
///
/// Steps count updates, over all resumes. The scheduled step is the one at which a run would be if all its steps had
/// taken as many samples as this run's: `scheduled / steps_per_epoch` is the epoch. Both are the same until a run
/// resumes with another number of samples per step; then they differ by a constant. The rest of the epoch is as many of
/// this run's steps as its samples fill, the last ones of the epoch.
class RunPosition {
 public:
  /// Deals out the rest of an epoch; returns the number of its steps (data::Loader::continue_epoch).
  using ContinueEpoch = std::function<std::size_t(std::uint64_t epoch, std::span<const data::EpochPart> earlier)>;

  /// Starts at step 0. @param samples_per_step of all workers together. @param steps_per_epoch at least 1.
  RunPosition(std::uint64_t samples_per_step, std::uint64_t steps_per_epoch)
      : samples_per_step_(samples_per_step), steps_per_epoch_(steps_per_epoch) {}

  /// Continues from `position`, where a run was after `step` steps. @param continue_epoch is called if the epoch has
  /// parts with other numbers of samples per step, or the same interrupted by others.
  void resume(std::uint64_t step, const DataPosition& position, const ContinueEpoch& continue_epoch);

  std::uint64_t samples_per_step() const { return samples_per_step_; }
  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Returns the scheduled step of a run that has done `step` steps.
  std::uint64_t scheduled(std::uint64_t step) const { return step + ahead_; }
  /// Returns the number of steps that a run has done at a scheduled step; 0 for those before its first.
  std::uint64_t step_at(std::uint64_t scheduled) const;
  std::uint64_t epoch(std::uint64_t step) const { return scheduled(step) / steps_per_epoch_; }
  /// Returns the epochs done, with a fraction.
  double epochs_done(std::uint64_t step) const {
    return static_cast<double>(scheduled(step)) / static_cast<double>(steps_per_epoch_);
  }
  /// Returns whether `epochs` epochs, or a multiple, end after step `before` and not after `step`.
  bool ends_epochs(std::uint64_t before, std::uint64_t step, std::uint64_t epochs) const {
    return epoch(step) / epochs > epoch(before) / epochs;
  }
  /// Returns the place in the data after `step` steps, which is not before the place where this run resumed.
  DataPosition at(std::uint64_t step) const;

 private:
  std::uint64_t samples_per_step_;
  std::uint64_t steps_per_epoch_;
  std::uint64_t ahead_ = 0;       // of the scheduled step, modulo 2^64: it may be behind, too
  DataPosition resumed_;          // the epoch that other steps began, and their parts of it
  std::uint64_t first_step_ = 0;  // of that epoch's rest
};

}  // namespace dragonn::trainer
