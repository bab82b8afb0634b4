// SPDX-License-Identifier: MIT
/// StepTimeline: the timelines of some training steps of all ranks, as one file of Chrome's trace format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/timeline.h"
#include "trainer/config/config.h"

namespace dragonn::trainer {

/// Records the steps that [logging] names. The file is written once, by rank 0, when the last of them is done: a run
/// that ends before leaves none. docs/formats.md describes it.
///
/// Times are those of the communicator's clock. Wall clocks of other processes are moved to rank 0's, by the shortest
/// of some round trips of a small message.
class StepTimeline {
 public:
  /// @param steps_done steps before the first of this start.
  StepTimeline(const LoggingConfig& config, std::uint64_t steps_done, comm::Communicator& communicator,
               std::filesystem::path file);

  /// Local. Lets the calling thread record while the result lives, if step `step` (from 1) is one of the timeline's.
  [[nodiscard]] ScopedRecording record(std::uint64_t step);
  /// Returns whether step `step` is the last one that is recorded.
  bool ends_after(std::uint64_t step) const { return step + 1 == first_ + steps_; }
  /// Collective, after every step: writes the file after the last step of the timeline, or of the run.
  /// @throws comm::CollectiveError if it cannot be written.
  void end_step(std::uint64_t step, bool is_last_of_run);

 private:
  /// The facts of a rank beside its text.
  struct Summary {
    std::uint64_t spans = 0;
    std::uint64_t stopped_in = 0;  ///< the step in which there was no more room; 0: there was
  };

  void write(std::uint64_t last_step);
  /// Collective. Returns what is added to this rank's times.
  std::int64_t clock_offset();
  std::int64_t measure_offset(int peer);
  std::int64_t let_measure();
  /// Collective. Returns the first step that some rank did not record to its end; the one behind the last if all did.
  std::uint64_t first_partial_step(std::uint64_t last_step);
  /// Returns the time at which a step began; the end of time if this rank has not recorded it.
  std::int64_t begin_of(std::uint64_t step) const;
  /// @param arrows_end the time from which messages have no arrows: their other ends may not be recorded.
  std::string own_text(std::int64_t offset, std::int64_t arrows_end) const;
  void tell(std::uint64_t last_step, const std::vector<Summary>& summaries) const;

  comm::Communicator& communicator_;
  std::filesystem::path file_;
  std::uint64_t first_;
  std::uint64_t steps_;
  double megabytes_;
  Timeline timeline_;
  std::uint64_t stopped_in_ = 0;
  std::int64_t clock_error_ = 0;  ///< on rank 0: the most by which another rank's times are off, in nanoseconds
  bool written_ = false;
};

}  // namespace dragonn::trainer
