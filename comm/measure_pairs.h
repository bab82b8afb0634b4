// SPDX-License-Identifier: MIT
/// The measurement of a network whose nodes and pairs of nodes differ: of what stands in a network file
/// (comm/network_file.h).
#pragma once

#include <cstddef>
#include <functional>

#include "comm/communicator.h"
#include "comm/node_links.h"
#include "comm/nodes.h"

namespace dragonn::comm {

struct PairsMeasurement {
  /// The time that a long message, or the long messages of a port, are to take: about so many seconds, from half of it
  /// to twice. Longer ones see less of what a network lets pass at once after a pause, of the time in which a
  /// connection gets up to speed, and of unlike latencies. A message has at most 64 MiB, the messages of a port 256 MiB
  /// together.
  double seconds = 0.25;
  /// Called on every rank when another part of the measurement is done.
  std::function<void(std::size_t done, std::size_t parts)> on_part = {};
};

/// Collective, for at least 2 ranks. Measures the network between nodes, with the first rank of each, and inside nodes,
/// with the first two ranks of each. Returns the same on every rank, with all fields that a network file has; the names
/// are host names. The communicator's clock measures. Parts follow one after the other, so that none disturbs another:
///
/// - for each two nodes the time of 8 bytes there and back, of which both directions get half as their latency, as no
///   clock tells them apart; then the rate of a long message in each direction, from the time until the receiver has
///   answered it; all medians;
/// - for each node the rate out of it while it sends to all others at once, and the rate into it while all others send.
///   The messages are as long as each pair's own rate allows in one time. Where all pairs together are slower than the
///   port, that is what is found: then no exchange is limited by the port. No port is slower than one of its pairs,
///   until the next part lowers its rate;
/// - a long message from each node to the next, all at once, as in exchanges. What they reach of their own rates is the
///   share of the ports' rates that counts: less than 1 where switches, or processors, do not carry all ports;
/// - inside each node with several workers the same as between two nodes; of the two directions the slower rate counts.
///
/// Of N nodes there are N (N - 1) / 2 parts of about 8 times `seconds`, 2 N of about 3 to 3 N / 4 times, and one of 7.
/// @param nodes of the ranks (find_nodes).
/// @throws CommError after the communicator's time limit: for a message, or while another part lasts.
NodeLinks measure_pairs(Communicator& communicator, const Nodes& nodes, const PairsMeasurement& how = {});

/// Returns the parts that measure_pairs has.
std::size_t parts_of_measurement(const Nodes& nodes);

}  // namespace dragonn::comm
