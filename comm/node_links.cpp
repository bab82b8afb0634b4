// SPDX-License-Identifier: MIT
#include "comm/node_links.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dragonn::comm {
namespace {

/// Returns the paths of all ordered pairs of nodes; of one node what is inside it.
std::vector<NetworkModel> paths_of(const NodeLinks& links) {
  const std::size_t nodes = links.workers.size();
  if (nodes == 1) return {links.inside.front()};
  std::vector<NetworkModel> paths;
  for (std::size_t from = 0; from < nodes; ++from) {
    for (std::size_t to = 0; to < nodes; ++to)
      if (to != from) paths.push_back(path_between(links, from, to));
  }
  return paths;
}

/// Returns "50", or "50 to 80".
std::string range_text(double low, double high) {
  return low == high ? fmt::format("{:.4g}", low) : fmt::format("{:.4g} to {:.4g}", low, high);
}

}  // namespace

NetworkModel path_between(const NodeLinks& links, std::size_t from, std::size_t to) {
  const NetworkModel& pair = links.pairs[from * links.workers.size() + to];
  return {pair.latency_seconds, std::min({links.up[from], pair.bytes_per_second, links.down[to]})};
}

NetworkModel slowest_path(const NodeLinks& links) {
  const std::vector<NetworkModel> paths = paths_of(links);
  return {std::ranges::max(paths, {}, &NetworkModel::latency_seconds).latency_seconds,
          std::ranges::min(paths, {}, &NetworkModel::bytes_per_second).bytes_per_second};
}

std::string describe(const NodeLinks& links) {
  const std::vector<NetworkModel> paths = paths_of(links);
  const auto [least, most] = std::ranges::minmax(paths, {}, &NetworkModel::latency_seconds);
  const auto [slowest, fastest] = std::ranges::minmax(paths, {}, &NetworkModel::bytes_per_second);
  const bool is_one = links.workers.size() == 1;
  return fmt::format("{} node{} with {} workers, {} Gbit/s and {} us latency {}", links.workers.size(),
                     is_one ? "" : "s", fmt::join(links.workers, ", "), range_text(slowest.gbps(), fastest.gbps()),
                     range_text(least.latency_us(), most.latency_us()), is_one ? "inside it" : "between them");
}

}  // namespace dragonn::comm
