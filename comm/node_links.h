// SPDX-License-Identifier: MIT
/// NodeLinks: the nodes of a network, and the links out of each, into each, inside each and between each two.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/network_model.h"

namespace dragonn::comm {

/// The nodes of a network. The workers of a node follow each other by rank, and share one link, with a rate out of the
/// node and one into it. Between two nodes a message goes at the least of the sender's rate out, the pair's own and the
/// receiver's rate in.
struct NodeLinks {
  std::vector<int> workers = {};          ///< of each node; empty: every worker is a node
  std::vector<NetworkModel> inside = {};  ///< between two workers of each node, which have full-duplex ports for it
  std::vector<double> up = {};            ///< bytes per second out of each node; empty: the network's
  std::vector<double> down = {};          ///< bytes per second into each node; empty: the network's
  /// The pairs, row by row: that from `from` to `to` is at [from * nodes + to], that of a node and itself has no
  /// meaning. Empty: the network's latency, and the links of the two nodes alone limit the rate.
  std::vector<NetworkModel> pairs = {};
  std::vector<std::string> names = {};  ///< of the nodes, for tables; empty: they have none

  /// Returns whether this says no more than a network of equal workers.
  bool is_plain() const { return workers.empty() && up.empty() && down.empty() && pairs.empty(); }
};

/// Returns what messages from one node to another have, alone: the pair's latency, and the least of the three rates.
/// @param links with rates and pairs of all nodes, as of a network file.
NetworkModel path_between(const NodeLinks& links, std::size_t from, std::size_t to);
/// Returns the largest latency and the least rate of all pairs, for formulas that know one network: of several nodes
/// those between nodes, else those inside the node. @param links as of path_between.
NetworkModel slowest_path(const NodeLinks& links);
/// Returns "4 nodes with 2, 2, 2, 2 workers, 0.02 to 0.1 Gbit/s and 50 to 80 us latency between them". @param links as
/// of path_between.
std::string describe(const NodeLinks& links);

}  // namespace dragonn::comm
