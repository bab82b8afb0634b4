// SPDX-License-Identifier: MIT
/// Nodes: which ranks share a node, and the place of each there.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace dragonn::comm {

/// The nodes of a group's ranks, numbered in the order of their lowest ranks. They may have unequal numbers of workers.
/// Workers of the same place on different nodes exchange gradients with each other (exchange/node_sums.h), so every
/// node needs them: there are as many places as the smallest node has workers.
class Nodes {
 public:
  /// Puts all ranks on one node.
  Nodes(int ranks = 1) : Nodes(std::vector<int>(static_cast<std::size_t>(ranks))) {}  // NOLINT: any group has nodes
  /// @param node_of any number for each rank, equal for the ranks of a node.
  explicit Nodes(std::span<const int> node_of);
  /// Puts neighbouring ranks on a node, so many on each in turn.
  static Nodes of_sizes(std::span<const int> sizes);
  /// Puts neighbouring ranks on a node, so many on each; the last one may have fewer.
  static Nodes of_size(int ranks, int workers_per_node);

  int ranks() const { return static_cast<int>(node_of_.size()); }
  int count() const { return static_cast<int>(members_.size()); }
  int node_of(int rank) const { return node_of_.at(static_cast<std::size_t>(rank)); }
  /// Returns how many lower ranks are on the rank's node.
  int place_of(int rank) const { return place_of_.at(static_cast<std::size_t>(rank)); }
  /// Returns the ranks of a node, ascending.
  const std::vector<int>& ranks_of(int node) const { return members_.at(static_cast<std::size_t>(node)); }
  /// Returns the ranks of a place, by node; of a place from places() on, which some nodes do not have, none.
  std::vector<int> ranks_at(int place) const;
  /// Returns the workers of the smallest node.
  int places() const;
  /// Returns the workers of the largest node.
  int most() const;
  std::span<const int> nodes_of_ranks() const { return node_of_; }

  friend bool operator==(const Nodes& a, const Nodes& b) { return a.node_of_ == b.node_of_; }

 private:
  std::vector<int> node_of_, place_of_;    // by rank
  std::vector<std::vector<int>> members_;  // by node
};

/// Returns "2 nodes of 4 workers", "2 nodes of 1 to 3 workers", "one node of 4 workers".
std::string describe(const Nodes& nodes);

}  // namespace dragonn::comm
