// SPDX-License-Identifier: MIT
/// Machine: finds the ranks that share this rank's machine.
#pragma once

#include "comm/communicator.h"

namespace dragonn::comm {

/// A rank among those of its machine.
struct PlaceOnMachine {
  int rank = 0;   ///< its place among the machine's ranks, in rank order
  int ranks = 1;  ///< number of ranks on the machine, itself included
};

/// Collective. Returns this rank's place on its machine. Machines are told apart by their host names, however the ranks
/// were started; ranks of the local backend share one. Gathers 256 bytes from each rank.
PlaceOnMachine place_on_machine(Communicator& communicator);

/// Collective. Returns the lowest rank on another machine than rank 0's, by host names; 1 if all share one.
int first_rank_elsewhere(Communicator& communicator);

}  // namespace dragonn::comm
