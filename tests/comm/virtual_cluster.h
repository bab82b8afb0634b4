// SPDX-License-Identifier: MIT
/// Helpers of the tests of virtual clusters: a network, and the clocks of programs on it.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "comm/network_model.h"
#include "tests/comm/support.h"

namespace dragonn::comm::test {

constexpr NetworkModel kNetwork{.latency_seconds = 1e-3, .bytes_per_second = 1e6};
constexpr double kLatency = kNetwork.latency_seconds;

inline double transfer(double bytes) {
  return bytes / kNetwork.bytes_per_second;
}

/// Returns the clocks of all ranks when `fn` has returned, on a cluster whose computing costs nothing.
inline std::vector<double> times_after(int world, const NodeLinks& nodes,
                                       const std::function<void(Communicator&)>& fn) {
  std::vector<double> times(static_cast<std::size_t>(world));
  run_local(world, {.timeout_s = 60, .network = kNetwork, .nodes = nodes, .compute = Compute::kZero},
            [&](Communicator& communicator) {
              fn(communicator);
              times[unsigned_rank(communicator)] = communicator.now();
            });
  return times;
}
inline std::vector<double> times_after(int world, const std::function<void(Communicator&)>& fn) {
  return times_after(world, {}, fn);
}

/// The tolerance is for rounding in sums of a few hundred products.
inline doctest::Approx about(double seconds) {
  return doctest::Approx(seconds).epsilon(1e-12);
}

inline void send(Communicator& communicator, int destination, std::size_t bytes) {
  const std::vector<std::byte> message(bytes);
  communicator.send(destination, 1, std::span<const std::byte>(message));
}

inline void receive(Communicator& communicator, int source, std::size_t bytes) {
  std::vector<std::byte> message(bytes);
  communicator.recv_exactly(source, 1, std::span<std::byte>(message));
}

}  // namespace dragonn::comm::test
