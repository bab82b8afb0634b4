// SPDX-License-Identifier: MIT
#include "comm/align.h"

#include <array>

namespace dragonn::comm {

Moment latest_moment(Communicator& communicator) {
  const Moment mine = communicator.clock().moment();
  std::array<double, 2> latest{mine.seconds, mine.ideal};
  communicator.allreduce_max(std::span<double>(latest));
  return {latest[0], latest[1]};
}

void align(Communicator& communicator) {
  const ClockPause pause(communicator.clock());
  const ScopedPhase phase(communicator.traffic(), Phase::kMetrics);
  const Moment latest = latest_moment(communicator);
  communicator.barrier();
  communicator.clock().advance_to(latest);
}

}  // namespace dragonn::comm
