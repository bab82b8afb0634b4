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
#include "comm/virtual/in_port.h"

namespace dragonn::comm {

/// The nodes of a virtual cluster. The workers of a node follow each other by rank, and share one link, with a rate out
/// of the node and one into it.
struct NodeLinks {
  std::vector<int> workers = {};  ///< of each node; empty: every worker is a node
  NetworkModel inside = {};       ///< between two workers of a node, each with a full-duplex port of its own for it
  std::vector<double> up = {};    ///< bytes per second out of each node; empty: the network's
  std::vector<double> down = {};  ///< bytes per second into each node; empty: the network's

  /// Returns whether this says no more than a network of equal workers.
  bool is_plain() const { return workers.empty() && up.empty() && down.empty(); }
};

/// The ports of nodes and workers, and turns by virtual time.
///
/// A message of b bytes between nodes occupies the sender's node for b / up and, one latency later, the receiver's for
/// b / down, in which messages of all workers of a node queue. It is passed on as it arrives, so that the slower of the
/// two rates decides. A message inside a node occupies the ports of its two workers.
///
/// Ports that several workers share need one order of all messages. **A worker sends when it is its turn**: when no
/// other worker is earlier in virtual time, those left out that wait for a message. Nothing that such a worker sends
/// can be earlier than the message that it waits for. Of workers at one time the lower rank comes first. So no time
/// depends on how threads run; with Compute::kMeasured the measured work does.
class SharedNetwork {
 public:
  /// @throws ConfigError for workers that do not add up to `ranks`, rates that are not above 0, or one rate too few.
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
    Node(double rate_up, double rate_down) : up(rate_up), down(rate_down) {}

    double up, down;  // bytes per second
    double out_free_from = 0;
    InPort in;
  };
  /// Returns the worker that may act or run first; none if all wait.
  Worker* first();
  void wake_first();

  NetworkModel between_, inside_;
  mutable std::mutex mutex_;
  std::vector<Worker> workers_;
  std::vector<Node> nodes_;
  bool closed_ = false;
};

}  // namespace dragonn::comm
