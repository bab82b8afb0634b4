// SPDX-License-Identifier: MIT
/// PeerProcesses: what became of the other ranks' processes, as far as they run on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace dragonn::comm {

/// MPI does not tell that a peer was killed or stopped: messages just fail to come. The process table does. TCP tells
/// that one has ended, and not which process it was.
class PeerProcesses {
 public:
  /// Nothing is known of anybody.
  PeerProcesses() = default;
  /// Collective: every rank says who it is. 16 bytes from each, counted as control traffic.
  explicit PeerProcesses(Communicator& communicator);

  /// "process 1234 of rank 2 has ended", of the first rank that it is true of; "" if there is none. Reads a small file
  /// of /proc for each rank on this machine.
  std::string who_ended() const;
  /// "process 1234 of rank 2", or "rank 2" where it runs on another machine.
  std::string name(int rank) const;
  /// As who_ended, also of ranks that are stopped (SIGSTOP, a debugger).
  std::string who_is_gone() const;

 private:
  struct Process {
    int rank = 0;
    std::int64_t id = 0;
  };
  std::vector<Process> processes_;  ///< of other ranks that can be seen from here
};

}  // namespace dragonn::comm
