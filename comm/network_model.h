// SPDX-License-Identifier: MIT
/// NetworkModel: the time of a message by latency and bandwidth (the alpha-beta model), and its measurement by
/// ping-pong.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace dragonn::comm {

/// A network on which a message of b bytes takes latency_seconds + b / bytes_per_second. Source: docs/algorithms.md,
/// section 4.1.
struct NetworkModel {
  double latency_seconds = 0;   ///< alpha, at least 0
  double bytes_per_second = 0;  ///< 1 / beta, above 0

  /// Returns the time of an exchange in which `messages` follow one after the other and a rank sends `bytes` in all.
  double seconds(double messages, double bytes) const { return messages * latency_seconds + bytes / bytes_per_second; }

  double latency_us() const { return latency_seconds * 1e6; }
  /// Returns the bandwidth in 10^9 bits per second.
  double gbps() const { return bytes_per_second * 8 / 1e9; }
  static NetworkModel from_units(double latency_us, double gbps) { return {latency_us / 1e6, gbps * 1e9 / 8}; }
};

struct NetworkPreset {
  std::string name;
  NetworkModel network;
  std::string source;  ///< origin of the numbers
};

/// The networks that have a name. `1gbe` is a cluster that was measured (gTop-k, section IV: alpha 0.436 ms, beta 9e-6
/// ms per byte). The others have their nominal bandwidth and a usual latency (25gbe: docs/algorithms.md, section 4.1).
const std::vector<NetworkPreset>& network_presets();
/// Returns the names of the presets, in the order of their bandwidths.
std::vector<std::string> network_preset_names();
/// Returns the preset with that name. @throws ConfigError listing the names.
const NetworkPreset& find_network_preset(const std::string& name);
const NetworkModel& network_preset(const std::string& name);

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

/// Measures messages of so many bytes there and back, on ranks 0 and 1 alone. Returns the median seconds of one way, on
/// both.
double ping_pong_seconds(Communicator& communicator, std::size_t bytes);

/// Collective, for at least 2 ranks. Rank 0 and the first rank of another machine (rank 1 if there is none) exchange
/// messages of 8 bytes to 1 MiB, while the others wait. Returns medians, the same on every rank, by ascending size.
/// Some 19 MB are sent each way. The communicator's clock measures.
///
/// No size lies between 8 bytes and 64 KiB. Networks that are limited by a token bucket (in clouds, or by `tc tbf`) let
/// some 16 KiB pass at once after a pause, and such messages would look faster than a busy network sends them.
std::vector<PingPong> ping_pong_times(Communicator& communicator);

/// Collective, for at least 2 ranks. Measures between the ranks that ping_pong_times takes, but for a short time: they
/// exchange at most 4 messages of 8 bytes, 64 KiB and 1 MiB, some 4 MB each way. After a quarter of a second no larger
/// size is begun, and no message of one size is repeated after its share of that time. So it takes less than a second
/// where 64 KiB pass in a quarter of one (2 Mbit/s, or latencies of 60 ms). Returns the same on every rank.
/// @throws CommError after the communicator's time limit.
NetworkModel measure_network_briefly(Communicator& communicator);

/// Collective. Returns fit_network() of ping_pong_times(), the same on every rank.
NetworkModel measure_network(Communicator& communicator);

}  // namespace dragonn::comm
