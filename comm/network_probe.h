// SPDX-License-Identifier: MIT
/// Network probe: measures latency and bandwidth between two ranks by ping-pong.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "comm/network_model.h"

namespace dragonn::comm {

/// The time of a message of that many bytes, one way.
struct PingPong {
  std::size_t bytes = 0;
  double seconds = 0;  ///< above 0
};

/// Fits the line seconds = latency + bytes / bandwidth with the least squares of relative errors, so that small
/// messages weigh as much as large ones. A latency below 0 counts as 0. If larger messages take no longer (noise), the
/// largest alone gives the bandwidth.
/// @param times for at least two sizes.
NetworkModel fit_network(std::span<const PingPong> times);

/// Collective, for at least 2 ranks. Ranks 0 and 1 exchange messages of 8 bytes to 1 MiB, while the others wait.
/// Returns medians, the same on every rank, by ascending size. Some 19 MB are sent each way. The communicator's clock
/// measures.
///
/// No size lies between 8 bytes and 64 KiB. Networks that are limited by a token bucket (in clouds, or by `tc tbf`) let
/// some 16 KiB pass at once after a pause, and such messages would look faster than a busy network sends them.
std::vector<PingPong> ping_pong_times(Communicator& communicator);

/// Collective, for at least 2 ranks. Measures as ping_pong_times, but for a short time: rank 0 and the first rank of
/// another machine (rank 1 if there is none) exchange at most 4 messages of 8 bytes, 64 KiB and 1 MiB, some 4 MB each
/// way. After a quarter of a second no larger size is begun, and no message of one size is repeated after its share of
/// that time. So it takes less than a second where 64 KiB pass in a quarter of one (2 Mbit/s, or latencies of 60 ms).
/// Returns the same on every rank. @throws CommError after the communicator's time limit.
NetworkModel measure_network_briefly(Communicator& communicator);

/// Collective. Returns fit_network() of ping_pong_times(), the same on every rank.
NetworkModel measure_network(Communicator& communicator);

}  // namespace dragonn::comm
