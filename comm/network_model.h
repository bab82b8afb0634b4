// SPDX-License-Identifier: MIT
/// NetworkModel: the time of a message by latency and bandwidth (the alpha-beta model).
#pragma once

#include <string>
#include <vector>

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

}  // namespace dragonn::comm
