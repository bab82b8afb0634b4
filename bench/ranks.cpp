// SPDX-License-Identifier: MIT
#include "bench/ranks.h"

#include "comm/launcher.h"
#include "comm/local.h"
#include "comm/mpi.h"
#include "comm/tcp.h"

namespace dragonn::bench {

bool is_started_as_rank() {
  return comm::detect_process().has_value();
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
