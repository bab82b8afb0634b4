// SPDX-License-Identifier: MIT
#include "comm/mpi/call_watch.h"

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "comm/launcher.h"
#include "comm/peer_processes.h"

namespace dragonn::comm {

std::string describe_late(const WatchedCall& call) {
  const auto launcher = detect_launcher();
  const std::string stopped = stopped_sibling();
  return fmt::format("rank {}: {} has not returned within {} s ({}): it waits for {}{}{}",
                     launcher ? launcher->rank : 0, call.name, call.timeout_s, call.setting, call.waits_for,
                     stopped.empty() ? "" : "; ", stopped);
}

void CallWatch::watch(const std::stop_token& stop) {
  RunningDeadline deadline = deadline_after(call_.timeout_s);
  {
    std::unique_lock lock(mutex_);
    do {
      stopped_.wait_until(lock, stop, deadline.next_look(), [] { return false; });
      if (stop.stop_requested()) return;
    } while (!deadline.is_over());
  }
  std::fprintf(stderr, "%s\n", describe_late(call_).c_str());
  std::fflush(stderr);
  constexpr int kRunFailed = 1;
  std::_Exit(kRunFailed);  // no destructor may run while another thread is inside of MPI
}

}  // namespace dragonn::comm
