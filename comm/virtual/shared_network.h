// SPDX-License-Identifier: MIT
/// SharedNetwork: the links of nodes with several workers each, and the order in which the workers of a virtual cluster
/// use them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/deadline.h"
#include "comm/network_model.h"
#include "comm/node_links.h"
#include "comm/virtual/in_port.h"

namespace dragonn::comm {

/// The ports of nodes and workers, and turns by virtual time.
///
/// A message of b bytes between nodes occupies the sender's node for b / up and, one latency later, the receiver's for
/// b / down, in which messages of all workers of a node queue. It is passed on as it arrives, so that the slower of the
/// two rates decides. Where the two nodes' pair is slower than the sender's port, messages of this pair queue between
/// the ports, at the pair's rate, and hold up no message to another node. A message inside a node occupies the ports of
/// its two workers.
///
/// Ports that several workers share need one order of all messages. **A worker sends when it is its turn**: when no
/// other worker is earlier in virtual time, those left out that wait for a message. Nothing that such a worker sends
/// can be earlier than the message that it waits for. Of workers at one time the lower rank comes first. So no time
/// depends on how threads run; with Compute::kMeasured the measured work does.
class SharedNetwork {
 public:
  /// @throws ConfigError for workers that do not add up to `ranks`, rates that are not above 0, latencies below 0, or
  /// one value too few.
  SharedNetwork(int ranks, const NetworkModel& between, const NodeLinks& links);

  /// Waits, in wall time, until it is the turn of `rank`, whose clock shows `seconds`. Returns false if the deadline is
  /// over, or the network is closed.
  bool await_turn(int rank, double seconds, RunningDeadline deadline);

  struct Passage {
    double out;  ///< when the sender's port is done with the message
    double in;   ///< when the receiver has it
  };
  /// Passes a message that starts at `seconds`, at its sender's turn.
  Passage pass(int source, int destination, double seconds, std::size_t bytes);

  /// A rank waits for a message of `source` with this tag: the turns go on without it.
  void suspend(int rank, int source, int tag);
  /// The message is there. Does nothing if the rank waits for another one, or for none.
  void arrived(int rank, int source, int tag);
  /// A rank waits no more, whatever the reason.
  void resume(int rank);
  /// A rank sends nothing more.
  void leave(int rank);
  /// Ends all waits.
  void close();
  bool is_closed() const;

 private:
  enum class State { kRuns, kAsks, kWaits, kLeft };
  struct Worker {
    State state = State::kRuns;
    double seconds = 0;       // a lower bound of its clock
    int source = 0, tag = 0;  // of the message that it waits for
    std::condition_variable turn;
    double out_free_from = 0;  // for messages inside the node
    InPort in;
    int node = 0;
  };
  struct Node {
    double up, down;  // bytes per second
    NetworkModel inside;
    double out_free_from = 0;
    InPort in = {};
  };
  struct Pair {
    NetworkModel network;
    double free_from = 0;  // messages that the ports send faster than the pair carries them wait until then
  };
  struct Path {
    double& out_free_from;
    double up;
    double latency;
    Pair* pair;  // null: it is not slower than the first port
    InPort& in;
    double down;
  };
  static Passage pass_ports(const Path& path, double seconds, double bytes);
  /// Returns the worker that may act or run first; none if all wait.
  Worker* first();
  void wake_first();

  double latency_seconds_;  // where there are no pairs
  mutable std::mutex mutex_;
  std::vector<Worker> workers_;
  std::vector<Node> nodes_;
  std::vector<Pair> pairs_;  // by sender's node, then receiver's; empty: only ports limit the rate
  bool closed_ = false;
};

}  // namespace dragonn::comm
