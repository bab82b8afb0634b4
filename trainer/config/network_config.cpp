// SPDX-License-Identifier: MIT
// The network that a config describes. This needs neither layers nor data, for libdragonn.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/units_text.h"
#include "trainer/config/config.h"
#include "trainer/config/exchange_config.h"

namespace dragonn::trainer {

std::optional<comm::NetworkModel> NetworkConfig::modelled() const {
  if (model == NetworkKind::kNone) return std::nullopt;
  comm::NetworkModel network = preset == "none" ? comm::NetworkModel{} : comm::network_preset(preset);
  if (latency_us.number) network.latency_seconds = *latency_us.number / 1e6;
  if (gbps.number) network.bytes_per_second = *gbps.number * 1e9 / 8;
  return network;
}

comm::NodeLinks NetworkConfig::node_links(int workers) const {
  comm::NodeLinks links{.inside = comm::NetworkModel::from_units(inside_latency_us, inside_gbps)};
  for (const std::int64_t size : nodes) links.workers.push_back(static_cast<int>(size));
  for (int left = workers; nodes.empty() && workers_per_node > 1 && left > 0; left -= links.workers.back())
    links.workers.push_back(std::min(left, static_cast<int>(workers_per_node)));
  const int placed = std::accumulate(links.workers.begin(), links.workers.end(), 0);
  require(links.workers.empty() || placed == workers, "network.nodes = [{}] has {} workers: expected {} in all",
          fmt::join(nodes, ", "), placed, workers);
  const std::size_t count = links.workers.empty() ? static_cast<std::size_t>(workers) : links.workers.size();
  const auto rates = [count](const char* key, const std::vector<double>& values) {
    require(values.empty() || values.size() == count,
            "network.{} = [{}] has {} rates: expected one for each of {} nodes", key, fmt::join(values, ", "),
            values.size(), count);
    std::vector<double> bytes;
    for (const double value : values) bytes.push_back(comm::NetworkModel::from_units(0, value).bytes_per_second);
    return bytes;
  };
  links.up = rates("up_gbps", up_gbps);
  links.down = rates("down_gbps", down_gbps);
  return links;
}

std::string NetworkConfig::describe() const {
  const auto network = modelled();
  if (!network) return "";
  const bool is_preset = preset != "none" && !latency_us.number && !gbps.number;
  std::string text = network_text(network->gbps(), network->latency_us(), is_preset ? preset : "");
  if (!nodes.empty())
    text += fmt::format(", nodes with {} workers", fmt::join(nodes, ", "));
  else if (workers_per_node > 1)
    text += fmt::format(", {} workers per node", workers_per_node);
  if (!up_gbps.empty()) text += fmt::format(", {} Gbit/s out of the nodes", fmt::join(up_gbps, ", "));
  if (!down_gbps.empty()) text += fmt::format(", {} Gbit/s into them", fmt::join(down_gbps, ", "));
  return text;
}

}  // namespace dragonn::trainer
