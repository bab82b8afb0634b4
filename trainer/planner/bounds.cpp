// SPDX-License-Identifier: MIT
#include "trainer/planner/bounds.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "comm/nodes.h"
#include "trainer/run/plan.h"

namespace dragonn::trainer {
namespace {

/// A part is told if doubling it saves this share.
constexpr double kMatters = 0.02;
/// Links of larger clusters are not asked for one by one.
constexpr std::size_t kMostLinks = 32;

void double_rates(std::vector<double>& rates) {
  for (double& rate : rates) rate *= 2;
}

/// Returns the config with all links, of nodes and inside them, twice as fast.
RunSpec with_rates(RunSpec config) {
  NetworkConfig& network = config.network;
  network.gbps.number = 2 * config.network.modelled()->gbps();
  double_rates(network.up_gbps);
  double_rates(network.down_gbps);
  network.inside_gbps *= 2;
  return config;
}

RunSpec with_latency(RunSpec config) {
  config.network.latency_us.number = config.network.modelled()->latency_us() / 2;
  config.network.inside_latency_us /= 2;
  return config;
}

RunSpec with_computing(RunSpec config) {
  config.network.step_ms /= 2;
  return config;
}

/// Returns the rates of all links in one direction, which a config need not list.
std::vector<double> all_rates(const RunSpec& config, const std::vector<double>& rates) {
  if (!rates.empty()) return rates;
  const comm::NodeLinks links = config.network.node_links(static_cast<int>(config.comm.workers));
  const std::size_t count =
      links.workers.empty() ? static_cast<std::size_t>(config.comm.workers) : links.workers.size();
  return std::vector<double>(count, config.network.modelled()->gbps());
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
  const NetworkConfig& network = config.network;
  const std::size_t links = all_rates(config, {}).size();
  const bool differ = !network.up_gbps.empty() || !network.down_gbps.empty() || !network.nodes.empty();
  if (rates_matter && differ && links <= kMostLinks) {
    for (std::size_t node = 0; node < links; ++node) {
      for (const bool out : {true, false}) {
        RunSpec better = config;
        std::vector<double>& rates = out ? better.network.up_gbps : better.network.down_gbps;
        rates = all_rates(config, rates);
        rates[node] *= 2;
        ask(fmt::format("the link {} node {}", out ? "out of" : "into", node), better);
      }
    }
  }
  std::ranges::stable_sort(bounds, std::greater(), &Bound::saved);
  return bounds;
}

}  // namespace dragonn::trainer
