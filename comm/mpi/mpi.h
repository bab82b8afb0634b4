// SPDX-License-Identifier: MIT
/// The MPI backend: every process of the launcher is a rank.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>

#include "comm/communicator.h"

namespace dragonn::comm {

struct MpiOptions {
  double timeout_s = 120;        ///< longest wait for one message, and for the end of MPI, in seconds
  double start_timeout_s = 300;  ///< longest start of MPI, in seconds
  /// The largest number of bytes that MPI is asked to count; larger messages are sent as one element of a type of their
  /// size. Tests lower it. MPI counts in ints.
  std::size_t largest_count = std::numeric_limits<int>::max();
};

/// Initializes MPI, runs `fn` as this process's rank, and finalizes MPI. May be called once per process.
///
/// The calling thread makes all MPI calls and runs `fn`; only it uses the communicator (abort() excepted). Waits poll,
/// and yield the processor while nothing comes, so that there may be more ranks than cores.
///
/// Errors end every rank:
/// - If `fn` throws on all ranks within three seconds (a bad config, an error they agreed on), MPI is finalized in
///   order and the error is rethrown here: the program prints it once, on rank 0, and returns its exit code.
/// - If the process of a rank on this machine has ended, all waiting ranks get an error within a fraction of a second.
/// - If MPI's start or end is late, the process says so and ends (CallWatch); the launcher then ends the others.
/// - Otherwise the rank prints its error to stderr and calls MPI_Abort, which ends the others too. mpirun then returns
///   the exit code that the error calls for: 2 for a ConfigError, otherwise 1.
///
/// @throws CommError if MPI lacks the thread level, was initialized before, has fewer ranks than the launcher says, or
/// was started by an srun without `--mpi=pmix`, where it cannot find the other processes.
void run_mpi(const MpiOptions& options, const std::function<void(Communicator&)>& fn);

/// Runs `fn` as this process's rank, for a library in the process of another program. May be called many times, from
/// different threads. MPI is initialized by the first call, with MPI_THREAD_MULTIPLE, and finalized when the process
/// exits, unless the program does both itself (comm/mpi/call_watch.h).
///
/// An error ends this call and no process: the other ranks fail at their deadline, or when this process ends. Messages
/// may be pending after it, so MPI is not finalized. Every wait ends at MpiOptions::timeout_s, but for MPI_Init_thread,
/// which can be neither polled nor left: start_timeout_s is not used, and whoever starts the thread stops waiting for
/// it.
/// @throws CommError as run_mpi does, or if the program has initialized MPI with a lower thread level.
void run_hosted_mpi(const MpiOptions& options, const std::function<void(Communicator&)>& fn);

/// Returns whether the build has MPI (option DRAGONN_MPI). Without it both functions throw a ConfigError.
bool has_mpi();

}  // namespace dragonn::comm
