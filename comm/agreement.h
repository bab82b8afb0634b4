// SPDX-License-Identifier: MIT
/// Agreement of all ranks: on an error, instead of a hang, and on the time at which a timed part begins.
#pragma once

#include <exception>
#include <string>

#include "comm/communicator.h"
#include "core/error.h"

namespace dragonn::comm {

/// An error that every rank throws at the same place, so that the group can end in order: no rank waits for another,
/// and one rank prints it for all.
class CollectiveError : public Error {
 public:
  explicit CollectiveError(const std::string& message, int exit_code = 1) : Error(message), exit_code_(exit_code) {}

  /// The program's exit code: 2 when the first failing rank had a ConfigError.
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// Collective. If some rank brings an error, all ranks throw a CollectiveError with the message of the lowest such
/// rank.
/// @param names_rank prefix the message with that rank, unless all ranks failed.
void throw_everywhere(Communicator& communicator, const std::exception_ptr& error, bool names_rank = true);

namespace detail {
/// Runs `work`. Returns the error that it threw.
template <class Work>
std::exception_ptr error_of(Work&& work) {
  try {
    work();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}
}  // namespace detail

/// Runs `work` on every rank, then agrees on its success. `work` must not communicate.
template <class Work>
void all_ranks_or_none(Communicator& communicator, Work&& work) {
  throw_everywhere(communicator, detail::error_of(work));
}

/// Runs `work` on rank 0 for all ranks, then agrees on its success. The error names no rank, since the work was not
/// that rank's own. `work` must not communicate.
template <class Work>
void rank_zero_or_none(Communicator& communicator, Work&& work) {
  throw_everywhere(communicator, communicator.rank() == 0 ? detail::error_of(work) : nullptr, /*names_rank=*/false);
}

/// Collective. Brings all ranks to the same time: on a virtual cluster exactly and at no cost, otherwise as closely as
/// a barrier does. Counted under Phase::kMetrics.
void align(Communicator& communicator);
/// Collective. Returns the latest of all ranks' times, in each of its two measures. Moves no clock that is paused.
Moment latest_moment(Communicator& communicator);

}  // namespace dragonn::comm
