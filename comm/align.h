// SPDX-License-Identifier: MIT
/// Alignment: lets ranks begin a timed part together.
#pragma once

#include "comm/communicator.h"

namespace dragonn::comm {

/// Collective. Brings all ranks to the same time: on a virtual cluster exactly and at no cost, otherwise as closely as
/// a barrier does. Counted under Phase::kMetrics.
void align(Communicator& communicator);

/// Collective. Returns the latest of all ranks' times, in each of its two measures. Moves no clock that is paused.
Moment latest_moment(Communicator& communicator);

}  // namespace dragonn::comm
