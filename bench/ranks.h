// SPDX-License-Identifier: MIT
/// Runs a benchmark on several ranks.
#pragma once

#include <functional>

#include "comm/communicator.h"

namespace dragonn::bench {

/// Runs `fn` as this process's rank where a launcher (mpirun, srun) started it, else once in each of `local_ranks`
/// threads. Which of the two is the communicator's backend(). @throws what `fn` throws, and CommError.
void run_ranks(int local_ranks, double timeout_s, const std::function<void(comm::Communicator&)>& fn);

}  // namespace dragonn::bench
