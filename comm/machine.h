// SPDX-License-Identifier: MIT
/// Which ranks share a machine.
#pragma once

#include "comm/communicator.h"

namespace dragonn::comm {

/// A rank among those of its machine.
struct PlaceOnMachine {
  int rank = 0;   ///< its place among them, in rank order
  int ranks = 1;  ///< all of them, itself included
};

/// Collective. Machines are told apart by their host names, whatever started the ranks; those of the local backend
/// share one. Gathers 256 bytes from each rank.
PlaceOnMachine place_on_machine(Communicator& communicator);

}  // namespace dragonn::comm
