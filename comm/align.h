// SPDX-License-Identifier: MIT
/// Lets ranks begin together what is to be timed.
#pragma once

#include "comm/communicator.h"

namespace dragonn::comm {

/// Collective. Afterwards all ranks are at the same time: on a virtual cluster to the bit and at no cost, else as near
/// as a barrier brings them. Counted under Phase::kMetrics.
void align(Communicator& communicator);

}  // namespace dragonn::comm
