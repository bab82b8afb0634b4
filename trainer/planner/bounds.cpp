// SPDX-License-Identifier: MIT
#include "trainer/planner/bounds.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "comm/node_links.h"

namespace dragonn::trainer {
namespace {

/// A part is told if doubling it saves this share.
constexpr double kMatters = 0.02;
/// The links of larger clusters are not asked for one by one.
constexpr std::size_t kMostNodes = 16;

void double_rates(std::vector<double>& rates) {
  for (double& rate : rates) rate *= 2;
}

void double_rates(std::vector<comm::NetworkModel>& links) {
  for (comm::NetworkModel& link : links) link.bytes_per_second *= 2;
}

void halve_latencies(std::vector<comm::NetworkModel>& links) {
  for (comm::NetworkModel& link : links) link.latency_seconds /= 2;
}

/// Returns the config with all links, of nodes, between them and inside them, twice as fast.
RunSpec with_rates(RunSpec config) {
  NetworkConfig& network = config.network;
  if (network.links) {
    double_rates(network.links->up);
    double_rates(network.links->down);
    double_rates(network.links->pairs);
    double_rates(network.links->inside);
    return config;
  }
  network.gbps.number = 2 * network.modelled()->gbps();
  double_rates(network.up_gbps);
  double_rates(network.down_gbps);
  network.inside_gbps *= 2;
  return config;
}

RunSpec with_latency(RunSpec config) {
  NetworkConfig& network = config.network;
  if (network.links) {
    halve_latencies(network.links->pairs);
    halve_latencies(network.links->inside);
    return config;
  }
  network.latency_us.number = network.modelled()->latency_us() / 2;
  network.inside_latency_us /= 2;
  return config;
}

RunSpec with_computing(RunSpec config) {
  config.network.step_ms /= 2;
  return config;
}

std::size_t nodes_of(const RunSpec& config) {
  const comm::NodeLinks links = config.network.node_links(static_cast<int>(config.comm.workers));
  return links.workers.empty() ? static_cast<std::size_t>(config.comm.workers) : links.workers.size();
}

/// Returns the config with twice the rate out of a node, or into it, to and from all others.
RunSpec with_node(RunSpec config, std::size_t node, bool is_out) {
  NetworkConfig& network = config.network;
  const std::size_t count = nodes_of(config);
  if (network.links) {
    (is_out ? network.links->up : network.links->down)[node] *= 2;
    std::vector<comm::NetworkModel>& pairs = network.links->pairs;
    for (std::size_t other = 0; other < count && !pairs.empty(); ++other)
      pairs[is_out ? node * count + other : other * count + node].bytes_per_second *= 2;
    return config;
  }
  std::vector<double>& rates = is_out ? network.up_gbps : network.down_gbps;
  if (rates.empty()) rates.assign(count, network.modelled()->gbps());
  rates[node] *= 2;
  return config;
}

/// Returns whether nodes, or what connects them, are unlike.
bool differ(const NetworkConfig& network) {
  return network.links || !network.up_gbps.empty() || !network.down_gbps.empty() || !network.nodes.empty();
}

}  // namespace

std::vector<Bound> find_bounds(const RunSpec& config, const StepSeconds& step_seconds) {
  const double seconds = step_seconds(config);
  std::vector<Bound> bounds;
  const auto ask = [&](std::string part, const RunSpec& better) {
    const double saved = 1 - step_seconds(better) / seconds;
    if (saved >= kMatters) bounds.push_back({std::move(part), saved});
    return saved;
  };
  if (config.network.step_ms > 0) ask("computing", with_computing(config));
  ask("latency", with_latency(config));
  const bool rates_matter = ask("the rates of all links", with_rates(config)) >= kMatters;
  const std::size_t nodes = nodes_of(config);
  if (rates_matter && differ(config.network) && nodes <= kMostNodes) {
    for (std::size_t node = 0; node < nodes; ++node) {
      for (const bool is_out : {true, false})
        ask(fmt::format("the link {} node {}", is_out ? "out of" : "into", node), with_node(config, node, is_out));
    }
  }
  std::ranges::stable_sort(bounds, std::greater(), &Bound::saved);
  return bounds;
}

}  // namespace dragonn::trainer
