// SPDX-License-Identifier: MIT
#include "comm/nodes.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace dragonn::comm {

Nodes::Nodes(std::span<const int> node_of) {
  std::map<int, int> numbers;
  for (const int given : node_of) {
    const int node = numbers.try_emplace(given, static_cast<int>(numbers.size())).first->second;
    members_.resize(numbers.size());
    std::vector<int>& members = members_[static_cast<std::size_t>(node)];
    place_of_.push_back(static_cast<int>(members.size()));
    members.push_back(static_cast<int>(node_of_.size()));
    node_of_.push_back(node);
  }
}

Nodes Nodes::of_sizes(std::span<const int> sizes) {
  std::vector<int> node_of;
  for (std::size_t node = 0; node < sizes.size(); ++node)
    node_of.insert(node_of.end(), static_cast<std::size_t>(sizes[node]), static_cast<int>(node));
  return Nodes(node_of);
}

Nodes Nodes::of_size(int ranks, int workers_per_node) {
  std::vector<int> node_of;
  for (int rank = 0; rank < ranks; ++rank) node_of.push_back(rank / workers_per_node);
  return Nodes(node_of);
}

std::vector<int> Nodes::ranks_at(int place) const {
  std::vector<int> ranks;
  if (place >= places()) return ranks;
  for (const std::vector<int>& members : members_) ranks.push_back(members[static_cast<std::size_t>(place)]);
  return ranks;
}

int Nodes::places() const {
  return static_cast<int>(std::ranges::min_element(members_, {}, &std::vector<int>::size)->size());
}

int Nodes::most() const {
  return static_cast<int>(std::ranges::max_element(members_, {}, &std::vector<int>::size)->size());
}

std::string describe(const Nodes& nodes) {
  const std::string number = nodes.count() == 1 ? "one node" : fmt::format("{} nodes", nodes.count());
  const std::string workers = nodes.places() == nodes.most() ? fmt::to_string(nodes.most())
                                                             : fmt::format("{} to {}", nodes.places(), nodes.most());
  return fmt::format("{} of {} worker{}", number, workers, nodes.most() == 1 ? "" : "s");
}

}  // namespace dragonn::comm
