// SPDX-License-Identifier: MIT
#include "comm/virtual/shared_network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/nodes.h"
#include "core/error.h"

namespace dragonn::comm {
namespace {

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

void check_pairs(const std::vector<NetworkModel>& pairs, std::size_t nodes) {
  if (!pairs.empty() && pairs.size() != nodes * nodes) {
    throw ConfigError(fmt::format("{} pairs of {} nodes: expected one from each to each, {} in all", pairs.size(),
                                  nodes, nodes * nodes));
  }
  for (std::size_t place = 0; place < pairs.size(); ++place) {
    if (place / nodes == place % nodes) continue;
    const auto& [latency, rate] = pairs[place];
    if (!std::isfinite(latency) || latency < 0 || !(rate > 0)) {
      throw ConfigError(fmt::format(
          "{} s latency and {} bytes per second from node {} to {}: expected at least 0 s, finite, and more "
          "than 0 bytes per second",
          latency, rate, place / nodes, place % nodes));
    }
  }
}

/// Returns what is inside each node.
std::vector<NetworkModel> insides_of(const NodeLinks& links, std::size_t nodes) {
  if (links.workers.empty()) return std::vector<NetworkModel>(nodes);  // which have one worker each
  if (links.inside.size() != nodes) {
    throw ConfigError(fmt::format("{} networks inside nodes, of which there are {}: expected one for each",
                                  links.inside.size(), nodes));
  }
  return links.inside;
}

}  // namespace

SharedNetwork::SharedNetwork(int ranks, const NetworkModel& between, const NodeLinks& links)
    : latency_seconds_(between.latency_seconds), workers_(static_cast<std::size_t>(ranks)) {
  const std::vector<int> sizes = sizes_of(links.workers, ranks);
  const std::vector<double> up = rates_of("out of", links.up, between, sizes.size());
  const std::vector<double> down = rates_of("into", links.down, between, sizes.size());
  const std::vector<NetworkModel> inside = insides_of(links, sizes.size());
  for (std::size_t node = 0; node < sizes.size(); ++node)
    nodes_.push_back({.up = up[node], .down = down[node], .inside = inside[node]});
  check_pairs(links.pairs, sizes.size());
  for (const NetworkModel& pair : links.pairs) pairs_.push_back({pair});
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

SharedNetwork::Passage SharedNetwork::pass_ports(const Path& path, double seconds, double bytes) {
  double first = std::max(seconds, path.out_free_from);  // when the first byte leaves what the message passes last
  double last = first + bytes / path.up;                 // and the last byte
  path.out_free_from = last;
  if (path.pair != nullptr) {
    first = std::max(first, path.pair->free_from);
    last = first + bytes / path.pair->network.bytes_per_second;
    path.pair->free_from = last;
  }
  // The last byte cannot be in before it has left and travelled.
  const double ready = std::max(first, last - bytes / path.down) + path.latency;
  return {path.out_free_from, path.in.reserve(ready, bytes / path.down)};
}

SharedNetwork::Passage SharedNetwork::pass(int source, int destination, double seconds, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  Worker& sender = workers_[static_cast<std::size_t>(source)];
  Worker& receiver = workers_[static_cast<std::size_t>(destination)];
  const auto size = static_cast<double>(bytes);
  const auto number = static_cast<std::size_t>(sender.node), other = static_cast<std::size_t>(receiver.node);
  Node& from = nodes_[number];
  Node& to = nodes_[other];
  if (number == other) {
    const double rate = from.inside.bytes_per_second;
    return pass_ports({sender.out_free_from, rate, from.inside.latency_seconds, nullptr, receiver.in, rate}, seconds,
                      size);
  }
  Pair* const pair = pairs_.empty() ? nullptr : &pairs_[number * nodes_.size() + other];
  const double latency = pair == nullptr ? latency_seconds_ : pair->network.latency_seconds;
  const bool queues = pair != nullptr && pair->network.bytes_per_second < from.up;
  return pass_ports({from.out_free_from, from.up, latency, queues ? pair : nullptr, to.in, to.down}, seconds, size);
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
