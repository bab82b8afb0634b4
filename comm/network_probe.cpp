// SPDX-License-Identifier: MIT
#include "comm/network_probe.h"

#include <algorithm>
#include <array>
#include <vector>

#include "comm/tags.h"

namespace dragonn::comm {
namespace {

constexpr int kWarmUps = 3;
constexpr int kRuns = 11;  // odd: the median is one of them
constexpr std::array<std::size_t, 4> kSizes{8, 1 << 16, 1 << 18, 1 << 20};

/// Measures the median seconds of a message of `bytes`, on rank 0; ranks 0 and 1 take part.
double ping_pong(Communicator& communicator, std::size_t bytes) {
  std::vector<std::byte> message(bytes);
  const View<std::byte> view{std::span(message)};
  std::array<double, kRuns> seconds{};
  for (int run = -kWarmUps; run < kRuns; ++run) {
    if (communicator.rank() == 1) {
      communicator.recv_exactly(0, kTagPing, view);
      communicator.send(0, kTagPing, View<const std::byte>(view));
      continue;
    }
    const double start = communicator.now();
    communicator.send(1, kTagPing, View<const std::byte>(view));
    communicator.recv_exactly(1, kTagPing, view);
    if (run >= 0) seconds[static_cast<std::size_t>(run)] = (communicator.now() - start) / 2;
  }
  std::ranges::nth_element(seconds, seconds.begin() + kRuns / 2);
  return seconds[kRuns / 2];
}

}  // namespace

NetworkModel fit_network(std::span<const PingPong> times) {
  // Least squares: each equation latency + bytes * slope = seconds is divided by its seconds.
  double weights = 0, bytes = 0, squares = 0, ones = 0, products = 0;
  for (const PingPong& time : times) {
    const double weight = 1 / time.seconds, x = static_cast<double>(time.bytes) * weight;
    weights += weight * weight;
    bytes += weight * x;
    squares += x * x;
    ones += weight;
    products += x;
  }
  const double determinant = weights * squares - bytes * bytes;
  const double slope = (weights * products - bytes * ones) / determinant;
  const double latency = (squares * ones - bytes * products) / determinant;
  if (slope > 0) return {.latency_seconds = std::max(latency, 0.0), .bytes_per_second = 1 / slope};
  const PingPong& largest = *std::ranges::max_element(times, {}, &PingPong::bytes);
  return {.latency_seconds = 0, .bytes_per_second = static_cast<double>(largest.bytes) / largest.seconds};
}

std::vector<PingPong> ping_pong_times(Communicator& communicator) {
  DRAGONN_CHECK(communicator.size() > 1, "a network is measured between ranks, and there is one only");
  std::vector<PingPong> times;
  for (const std::size_t bytes : kSizes) {
    PingPong time{bytes, 0};
    if (communicator.rank() < 2) time.seconds = ping_pong(communicator, bytes);
    communicator.broadcast_value(0, time.seconds);
    times.push_back(time);
  }
  return times;
}

NetworkModel measure_network(Communicator& communicator) {
  return fit_network(ping_pong_times(communicator));
}

}  // namespace dragonn::comm
