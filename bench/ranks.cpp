// SPDX-License-Identifier: MIT
#include "bench/ranks.h"

#include "comm/launcher.h"
#include "comm/local.h"
#include "comm/mpi.h"
#include "comm/tcp.h"

namespace dragonn::bench {

void run_ranks(int local_ranks, double timeout_s, const std::function<void(comm::Communicator&)>& fn) {
  if (comm::launched_by_mpi()) {
    comm::run_mpi({.timeout_s = timeout_s}, fn);
  } else if (comm::detect_process()) {
    comm::run_tcp(comm::tcp_options("", timeout_s), fn);
  } else {
    comm::run_local(local_ranks, {.timeout_s = timeout_s}, fn);
  }
}

}  // namespace dragonn::bench
