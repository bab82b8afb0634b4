// SPDX-License-Identifier: MIT
/// Ranks: runs a benchmark on several ranks.
#pragma once

#include <functional>

#include "comm/communicator.h"

namespace dragonn::bench {

/// Returns whether this process is one rank of several: a launcher (mpirun, srun) started it, or RANK and WORLD_SIZE
/// are set.
bool is_started_as_rank();
/// Returns whether this is the first of several ranks that run this program: only that one prints.
bool is_first_rank();

/// Runs `fn` as this process's rank, by MPI under a launcher, else by TCP (at MASTER_ADDR and MASTER_PORT). A process
/// that is no such rank runs it once in each of `local_ranks` threads. The communicator's backend() tells which.
/// @throws what `fn` throws, and CommError.
void run_ranks(int local_ranks, double timeout_s, const std::function<void(comm::Communicator&)>& fn);

}  // namespace dragonn::bench
