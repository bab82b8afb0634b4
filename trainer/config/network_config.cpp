// SPDX-License-Identifier: MIT
// The network that a config describes. This needs neither layers nor data, for libdragonn.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/network_file.h"
#include "core/error.h"
#include "core/units_text.h"
#include "trainer/config/config.h"
#include "trainer/config/exchange_config.h"

namespace dragonn::trainer {

void NetworkConfig::read_links() {
  links.reset();
  if (file.empty()) return;
  try {
    links = comm::read_network_file(file);
  } catch (const Error& error) {
    throw ConfigError(fmt::format("network.file: {}", error.what()));
  }
}

std::optional<comm::NetworkModel> NetworkConfig::modelled() const {
  if (model == NetworkKind::kNone) return std::nullopt;
  if (links) return comm::slowest_path(*links);
  comm::NetworkModel network = preset == "none" ? comm::NetworkModel{} : comm::network_preset(preset);
  if (latency_us.number) network.latency_seconds = *latency_us.number / 1e6;
  if (gbps.number) network.bytes_per_second = *gbps.number * 1e9 / 8;
  return network;
}

std::optional<comm::NetworkModel> NetworkConfig::slowest_link() const {
  std::optional<comm::NetworkModel> network = modelled();
  if (!network || links) return network;
  const double plain = network->bytes_per_second;
  const auto least = [plain](const std::vector<double>& rates) {
    return rates.empty() ? plain : comm::NetworkModel::from_units(0, std::ranges::min(rates)).bytes_per_second;
  };
  network->bytes_per_second = std::min(least(up_gbps), least(down_gbps));
  return network;
}

comm::NodeLinks NetworkConfig::node_links(int workers) const {
  const auto check_workers = [workers](const std::vector<int>& sizes, const std::string& what) {
    const int placed = std::accumulate(sizes.begin(), sizes.end(), 0);
    require(sizes.empty() || placed == workers, "network.{} has {} workers: expected {} in all", what, placed, workers);
  };
  if (links) {
    check_workers(links->workers, fmt::format("file = \"{}\"", file));
    return *links;
  }
  comm::NodeLinks described;
  for (const std::int64_t size : nodes) described.workers.push_back(static_cast<int>(size));
  for (int left = workers; nodes.empty() && workers_per_node > 1 && left > 0; left -= described.workers.back())
    described.workers.push_back(std::min(left, static_cast<int>(workers_per_node)));
  check_workers(described.workers, fmt::format("nodes = [{}]", fmt::join(nodes, ", ")));
  described.inside.assign(described.workers.size(), comm::NetworkModel::from_units(inside_latency_us, inside_gbps));
  const std::size_t count = described.workers.empty() ? static_cast<std::size_t>(workers) : described.workers.size();
  const auto rates = [count](const char* key, const std::vector<double>& values) {
    require(values.empty() || values.size() == count,
            "network.{} = [{}] has {} rates: expected one for each of {} nodes", key, fmt::join(values, ", "),
            values.size(), count);
    std::vector<double> bytes;
    for (const double value : values) bytes.push_back(comm::NetworkModel::from_units(0, value).bytes_per_second);
    return bytes;
  };
  described.up = rates("up_gbps", up_gbps);
  described.down = rates("down_gbps", down_gbps);
  return described;
}

std::string NetworkConfig::describe() const {
  const auto network = modelled();
  if (!network) return "";
  if (links) return fmt::format("{} ({})", comm::describe(*links), file);
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
