// SPDX-License-Identifier: MIT
#include "comm/align.h"

namespace dragonn::comm {

void align(Communicator& communicator) {
  const ClockPause pause(communicator.clock());
  const ScopedPhase phase(communicator.traffic(), Phase::kMetrics);
  double latest = communicator.now();
  communicator.allreduce_max(std::span<double>(&latest, 1));
  communicator.barrier();
  communicator.clock().advance_to(latest);
}

}  // namespace dragonn::comm
