// SPDX-License-Identifier: MIT
/// Machine: the ranks that share this rank's machine, and the state of their processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/nodes.h"

namespace dragonn::comm {

/// A rank among those of its machine.
struct PlaceOnMachine {
  int rank = 0;   ///< its place among the machine's ranks, in rank order
  int ranks = 1;  ///< number of ranks on the machine, itself included
};

/// Returns the name of this host, at most 255 bytes.
std::string host_name();

/// Collective. Returns the machines of all ranks. They are told apart by their host names, however the ranks were
/// started; ranks of the local backend share one. Gathers 256 bytes from each rank.
Nodes find_nodes(Communicator& communicator);

/// Collective. Returns this rank's place on its machine (find_nodes).
PlaceOnMachine place_on_machine(Communicator& communicator);

/// Collective. Returns the lowest rank on another machine than rank 0's, by host names; 1 if all share one.
int first_rank_elsewhere(Communicator& communicator);

/// Finds peers that ended or stopped, by the process table. MPI does not report them: messages just fail to come. TCP
/// reports that a process has ended, but not which.
class PeerProcesses {
 public:
  /// Creates an empty table: errors then name ranks only.
  PeerProcesses() = default;
  /// Collective. Exchanges process ids: 16 bytes from each rank, counted as control traffic.
  explicit PeerProcesses(Communicator& communicator);

  /// Returns "process 1234 of rank 2 has ended" for the first such rank; "" if there is none. Reads a small file of
  /// /proc for each rank on this machine.
  std::string who_ended() const;
  /// Returns "process 1234 of rank 2", or "rank 2" if that runs on another machine.
  std::string name(int rank) const;
  /// Works like who_ended(), also for processes that are stopped (SIGSTOP, a debugger).
  std::string who_is_gone() const;

 private:
  struct Process {
    int rank = 0;
    std::int64_t id = 0;
  };
  std::vector<Process> processes_;  ///< of the other ranks that this process can see
};

/// Returns "process 1234 of rank 2 is stopped" for the first stopped process with this one's parent, which is the
/// launcher's on this machine; "" if there is none. Before MPI has started no rank knows the processes of the others.
std::string stopped_sibling();

}  // namespace dragonn::comm
