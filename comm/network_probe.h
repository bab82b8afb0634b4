// SPDX-License-Identifier: MIT
/// Network probe: latency and bandwidth between two ranks, by ping-pong.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "comm/network_model.h"

namespace dragonn::comm {

/// The time that a message of so many bytes takes, one way.
struct PingPong {
  std::size_t bytes = 0;
  double seconds = 0;  ///< above 0
};

/// The line seconds = latency + bytes / bandwidth with the least squares of relative errors, so that small messages
/// weigh as much as large ones. A latency below 0 counts as 0. Where larger messages take no longer (noise), the
/// largest alone says the bandwidth.
/// @param times of two sizes or more.
NetworkModel fit_network(std::span<const PingPong> times);

/// Collective, 2 ranks or more: rank 0 exchanges messages of 8 bytes to 1 MiB with rank 1, while the others wait.
/// Medians, the same on every rank, by ascending size. Some 19 MB each way. The clock is the communicator's.
///
/// None of the sizes lies between 8 bytes and 64 KiB: networks that are limited by a token bucket (of clouds, of `tc
/// tbf`) let some 16 KiB pass at once after a pause, and such messages would look faster than a busy network sends
/// them.
std::vector<PingPong> ping_pong_times(Communicator& communicator);

/// The fit of ping_pong_times. Collective, the same on every rank.
NetworkModel measure_network(Communicator& communicator);

}  // namespace dragonn::comm
