// SPDX-License-Identifier: MIT
#include "bench/ranks.h"

#include "comm/launcher.h"
#include "comm/local/local.h"
#include "comm/mpi/mpi.h"
#include "comm/tcp/tcp.h"

namespace dragonn::bench {

bool is_started_as_rank() {
  return comm::detect_process().has_value();
}

bool is_first_rank() {
  const auto rank = comm::launched_by_mpi() ? comm::detect_launcher() : comm::detect_process();
  return !rank || rank->rank == 0;
}

void run_ranks(int local_ranks, double timeout_s, const std::function<void(comm::Communicator&)>& fn) {
  if (comm::launched_by_mpi()) {
    comm::run_mpi({.timeout_s = timeout_s}, fn);
  } else if (is_started_as_rank()) {
    comm::run_tcp(comm::tcp_options("", timeout_s), fn);
  } else {
    comm::run_local(local_ranks, {.timeout_s = timeout_s}, fn);
  }
}

}  // namespace dragonn::bench
