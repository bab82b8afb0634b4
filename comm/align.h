// SPDX-License-Identifier: MIT
/// Lets ranks begin together what is to be timed.
#pragma once

#include "comm/communicator.h"

namespace dragonn::comm {

/// Collective. Afterwards all ranks are at the same time: on a virtual cluster to the bit and at no cost, else as near
/// as a barrier brings them. Counted under Phase::kMetrics.
void align(Communicator& communicator);

/// Collective. The latest of all ranks' times, by either measure. Moves no clock that is paused.
Moment latest_moment(Communicator& communicator);

}  // namespace dragonn::comm
