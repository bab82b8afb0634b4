// SPDX-License-Identifier: MIT
/// Runs a benchmark on several ranks.
#pragma once

#include <functional>

#include "comm/communicator.h"

namespace dragonn::bench {

/// Runs `fn` as this process's rank: by MPI where a launcher (mpirun, srun) started it, by TCP where RANK and
/// WORLD_SIZE say which one it is (at MASTER_ADDR and MASTER_PORT); else once in each of `local_ranks` threads. Which
/// of these it is tells the communicator's backend(). @throws what `fn` throws, and CommError.
void run_ranks(int local_ranks, double timeout_s, const std::function<void(comm::Communicator&)>& fn);

}  // namespace dragonn::bench
