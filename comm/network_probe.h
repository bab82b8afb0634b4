// SPDX-License-Identifier: MIT
/// Network probe: latency and bandwidth between two ranks, by ping-pong.
#pragma once

#include <cstddef>
#include <span>

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

/// Collective, 2 ranks or more: rank 0 exchanges messages of 8 bytes to 1 MiB with rank 1, while the others wait; the
/// fit is the same on every rank. Some 20 MB each way. The clock is the communicator's.
NetworkModel measure_network(Communicator& communicator);

}  // namespace dragonn::comm
