// SPDX-License-Identifier: MIT
#include "comm/network_model.h"

#include <algorithm>

#include "core/error.h"
#include "core/settings.h"

namespace dragonn::comm {

const std::vector<NetworkPreset>& network_presets() {
  static const std::vector<NetworkPreset> table{
      {"1gbe",
       {.latency_seconds = 0.436e-3, .bytes_per_second = 1 / 9e-9},
       "gTop-k's cluster, as measured for that paper in 2019: its latency is far above that of a switch"},
      {"1gbe-switch", NetworkModel::from_units(/*latency_us=*/50, /*gbps=*/1), "a 1 Gbit/s switch of today"},
      {"10gbe", NetworkModel::from_units(/*latency_us=*/50, /*gbps=*/10), "nominal bandwidth, usual latency"},
      {"25gbe", NetworkModel::from_units(/*latency_us=*/20, /*gbps=*/25), "DRAGONN's example: docs/algorithms.md, 4.1"},
      {"100g-ib", NetworkModel::from_units(/*latency_us=*/1.5, /*gbps=*/100), "nominal bandwidth, usual latency"},
  };
  return table;
}

std::vector<std::string> network_preset_names() {
  std::vector<std::string> names;
  for (const NetworkPreset& preset : network_presets()) names.push_back(preset.name);
  return names;
}

const NetworkPreset& find_network_preset(const std::string& name) {
  const auto found = std::ranges::find(network_presets(), name, &NetworkPreset::name);
  if (found == network_presets().end())
    throw ConfigError(unknown_name_message("network preset", name, network_preset_names()));
  return *found;
}

const NetworkModel& network_preset(const std::string& name) {
  return find_network_preset(name).network;
}

}  // namespace dragonn::comm
