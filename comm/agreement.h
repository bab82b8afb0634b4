// SPDX-License-Identifier: MIT
/// Agreement: turns an error of one rank into the same error on all ranks, instead of a hang.
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

/// Runs `work` on every rank, then agrees on its success. `work` must not communicate.
template <class Work>
void all_ranks_or_none(Communicator& communicator, Work&& work) {
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  throw_everywhere(communicator, error);
}

/// Runs `work` on rank 0 for all ranks, then agrees on its success. The error names no rank, since the work was not
/// that rank's own. `work` must not communicate.
template <class Work>
void rank_zero_or_none(Communicator& communicator, Work&& work) {
  std::exception_ptr error;
  try {
    if (communicator.rank() == 0) work();
  } catch (...) {
    error = std::current_exception();
  }
  throw_everywhere(communicator, error, /*names_rank=*/false);
}

}  // namespace dragonn::comm
