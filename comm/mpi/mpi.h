// SPDX-License-Identifier: MIT
/// The MPI backend: every process of the launcher is a rank.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>

#include "comm/communicator.h"

namespace dragonn::comm {

struct MpiOptions {
  double timeout_s = 120;  ///< longest wait for one message, in seconds
  /// Bytes that MPI is asked to count at most; larger messages travel as one element of a type of their size. For
  /// tests: MPI counts in ints.
  std::size_t largest_count = std::numeric_limits<int>::max();
};

/// Initializes MPI, runs `fn` as this process's rank, finalizes MPI. Once per process.
///
/// All MPI calls are made by the calling thread, which also runs `fn`: the communicator is used by that thread alone
/// (abort() excepted). MPI_THREAD_FUNNELED is asked for and checked. Waits poll, and give the processor away while
/// nothing comes, so that there may be more ranks than cores.
///
/// Errors end every rank:
/// - If `fn` throws on all ranks within three seconds (a bad config, an error they agreed on), MPI is finalized in
///   order and the error is thrown again here: the program prints it once, on rank 0, and returns its exit code.
/// - A rank on this machine whose process has ended is an error within a fraction of a second, for all that wait; one
///   that is stopped is named when the deadline has passed.
/// - Otherwise the rank prints its error to stderr and calls MPI_Abort, which ends the others too. mpirun then returns
///   the exit code that the error calls for: 2 for a ConfigError, otherwise 1.
///
/// @throws CommError if MPI lacks the thread level, was initialized before, or is smaller than the launcher says (an
/// srun without `--mpi=pmix`: every process would believe that it is alone).
void run_mpi(const MpiOptions& options, const std::function<void(Communicator&)>& fn);

}  // namespace dragonn::comm
