// SPDX-License-Identifier: MIT
#include "comm/virtual/shared_network.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/nodes.h"
#include "core/error.h"

namespace dragonn::comm {
namespace {

/// Passes a message through two ports in a row, the second one `latency` behind.
SharedNetwork::Passage pass_ports(double& out_free_from, double up, double latency, InPort& in, double down,
                                  double seconds, double bytes) {
  const double begin = std::max(seconds, out_free_from);
  out_free_from = begin + bytes / up;
  // The last byte cannot be in before it has left and travelled.
  const double ready = std::max(begin, out_free_from - bytes / down) + latency;
  return {out_free_from, in.reserve(ready, bytes / down)};
}

/// Returns the rate of every node.
std::vector<double> rates_of(const char* where, const std::vector<double>& rates, const NetworkModel& network,
                             std::size_t nodes) {
  if (rates.empty()) return std::vector<double>(nodes, network.bytes_per_second);
  if (rates.size() != nodes) {
    throw ConfigError(
        fmt::format("{} rates {} nodes, of which there are {}: expected one for each", rates.size(), where, nodes));
  }
  for (const double rate : rates) {
    if (!(rate > 0)) throw ConfigError(fmt::format("{} bytes per second {} a node: expected more than 0", rate, where));
  }
  return rates;
}

/// Returns the number of workers of every node.
std::vector<int> sizes_of(const std::vector<int>& workers, int ranks) {
  if (workers.empty()) return std::vector<int>(static_cast<std::size_t>(ranks), 1);
  const bool are_filled = std::ranges::all_of(workers, [](int size) { return size > 0; });
  if (!are_filled || std::accumulate(workers.begin(), workers.end(), 0) != ranks) {
    throw ConfigError(fmt::format("nodes with {} workers: expected {} in all, and at least one on each node",
                                  fmt::join(workers, ", "), ranks));
  }
  return workers;
}

}  // namespace

SharedNetwork::SharedNetwork(int ranks, const NetworkModel& between, const NodeLinks& links)
    : between_(between), inside_(links.inside), workers_(static_cast<std::size_t>(ranks)) {
  const std::vector<int> sizes = sizes_of(links.workers, ranks);
  const std::vector<double> up = rates_of("out of", links.up, between, sizes.size());
  const std::vector<double> down = rates_of("into", links.down, between, sizes.size());
  for (std::size_t node = 0; node < sizes.size(); ++node) nodes_.emplace_back(up[node], down[node]);
  const Nodes nodes = Nodes::of_sizes(sizes);
  for (int rank = 0; rank < ranks; ++rank) workers_[static_cast<std::size_t>(rank)].node = nodes.node_of(rank);
}

SharedNetwork::Worker* SharedNetwork::first() {
  Worker* first = nullptr;
  for (Worker& worker : workers_) {
    if (worker.state != State::kRuns && worker.state != State::kAsks) continue;
    if (first == nullptr || worker.seconds < first->seconds) first = &worker;
  }
  return first;
}

void SharedNetwork::wake_first() {
  Worker* const worker = first();
  if (worker != nullptr && worker->state == State::kAsks) worker->turn.notify_one();
}

bool SharedNetwork::await_turn(int rank, double seconds, RunningDeadline deadline) {
  std::unique_lock lock(mutex_);
  Worker& worker = workers_[static_cast<std::size_t>(rank)];
  worker.state = State::kAsks;
  worker.seconds = seconds;
  wake_first();
  bool in_time = true;
  const auto is_over = [&] { return closed_ || first() == &worker; };
  while (in_time && !worker.turn.wait_until(lock, deadline.next_look(), is_over)) in_time = !deadline.is_over();
  worker.state = State::kRuns;
  return in_time && !closed_;
}

SharedNetwork::Passage SharedNetwork::pass(int source, int destination, double seconds, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  Worker& sender = workers_[static_cast<std::size_t>(source)];
  Worker& receiver = workers_[static_cast<std::size_t>(destination)];
  const auto size = static_cast<double>(bytes);
  if (sender.node == receiver.node) {
    return pass_ports(sender.out_free_from, inside_.bytes_per_second, inside_.latency_seconds, receiver.in,
                      inside_.bytes_per_second, seconds, size);
  }
  Node& from = nodes_[static_cast<std::size_t>(sender.node)];
  Node& to = nodes_[static_cast<std::size_t>(receiver.node)];
  return pass_ports(from.out_free_from, from.up, between_.latency_seconds, to.in, to.down, seconds, size);
}

void SharedNetwork::suspend(int rank, int source, int tag) {
  const std::scoped_lock lock(mutex_);
  Worker& worker = workers_[static_cast<std::size_t>(rank)];
  worker.state = State::kWaits;
  worker.source = source;
  worker.tag = tag;
  wake_first();
}

void SharedNetwork::arrived(int rank, int source, int tag) {
  const std::scoped_lock lock(mutex_);
  Worker& worker = workers_[static_cast<std::size_t>(rank)];
  if (worker.state == State::kWaits && worker.source == source && worker.tag == tag) worker.state = State::kRuns;
}

void SharedNetwork::resume(int rank) {
  const std::scoped_lock lock(mutex_);
  Worker& worker = workers_[static_cast<std::size_t>(rank)];
  if (worker.state == State::kWaits) worker.state = State::kRuns;
}

void SharedNetwork::leave(int rank) {
  const std::scoped_lock lock(mutex_);
  workers_[static_cast<std::size_t>(rank)].state = State::kLeft;
  wake_first();
}

void SharedNetwork::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  for (Worker& worker : workers_) worker.turn.notify_one();
}

bool SharedNetwork::is_closed() const {
  const std::scoped_lock lock(mutex_);
  return closed_;
}

}  // namespace dragonn::comm
