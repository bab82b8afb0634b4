// SPDX-License-Identifier: MIT
/// NetworkModel: what a message costs, as a latency and a bandwidth (the alpha-beta model).
#pragma once

#include <string>
#include <vector>

namespace dragonn::comm {

/// A message of b bytes takes latency_seconds + b / bytes_per_second. Source: docs/algorithms.md, section 4.1.
struct NetworkModel {
  double latency_seconds = 0;   ///< alpha, at least 0
  double bytes_per_second = 0;  ///< 1 / beta, above 0

  /// Of an exchange in which `messages` follow one after the other and a rank sends `bytes` in all.
  double seconds(double messages, double bytes) const { return messages * latency_seconds + bytes / bytes_per_second; }

  double latency_us() const { return latency_seconds * 1e6; }
  /// In 10^9 bits per second.
  double gbps() const { return bytes_per_second * 8 / 1e9; }
  static NetworkModel from_units(double latency_us, double gbps) { return {latency_us / 1e6, gbps * 1e9 / 8}; }
};

struct NetworkPreset {
  std::string name;
  NetworkModel network;
  std::string source;  ///< whose numbers these are
};

/// Networks by name: `1gbe` is a cluster that was measured (gTop-k, section IV: alpha 0.436 ms, beta 9e-6 ms per byte);
/// the others have their nominal bandwidth and a latency that is usual for them (25gbe: docs/algorithms.md,
/// section 4.1).
const std::vector<NetworkPreset>& network_presets();
/// Their names, in the order of their bandwidths.
std::vector<std::string> network_preset_names();
/// @throws ConfigError listing the names.
const NetworkPreset& find_network_preset(const std::string& name);
const NetworkModel& network_preset(const std::string& name);

}  // namespace dragonn::comm
