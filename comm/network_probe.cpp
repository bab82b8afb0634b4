// SPDX-License-Identifier: MIT
#include "comm/network_probe.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "comm/machine.h"
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

constexpr std::array<std::size_t, 3> kBriefSizes{8, 1 << 16, 1 << 20};
constexpr double kBriefSeconds = 0.25;
constexpr std::size_t kBriefRuns = 3;

/// Measures on rank 0 against a partner, which sends back whatever comes.
class BriefProbe {
 public:
  BriefProbe(Communicator& communicator, int partner)
      : communicator_(communicator), partner_(partner), message_(kBriefSizes.back()) {}

  /// Returns the times, of rank 0. The first message of a size only counts if there is no time for another.
  std::vector<PingPong> measure() {
    std::vector<PingPong> times;
    const double begin = communicator_.now();
    const auto elapsed = [&] { return communicator_.now() - begin; };
    double until = 0;
    for (const std::size_t bytes : kBriefSizes) {
      // At least two sizes give a latency and a bandwidth.
      if (times.size() >= 2 && elapsed() >= kBriefSeconds) break;
      until += kBriefSeconds / kBriefSizes.size();
      std::vector<double> seconds{there_and_back(bytes)};
      for (std::size_t run = 0; run < kBriefRuns && elapsed() < until; ++run) {
        if (run == 0) seconds.clear();
        seconds.push_back(there_and_back(bytes));
      }
      const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
      std::ranges::nth_element(seconds, middle);
      times.push_back({bytes, std::max(*middle / 2, kShortest)});
    }
    announce(0);
    return times;
  }

  /// Sends back what comes from rank 0 until it announces the end.
  void answer() {
    for (;;) {
      std::uint64_t bytes = 0;
      communicator_.recv_exactly(0, kTagPing, Communicator::as_writable_bytes(std::span(&bytes, 1)));
      if (bytes == 0) return;
      DRAGONN_CHECK(bytes <= message_.size(), "rank 0 announces a message of {} bytes to measure the network", bytes);
      communicator_.recv_exactly(0, kTagPing, view(bytes));
      communicator_.send(0, kTagPing, View<const std::byte>(view(bytes)));
    }
  }

 private:
  static constexpr double kShortest = 1e-9;  // a clock may be coarse

  View<std::byte> view(std::size_t bytes) { return View<std::byte>(std::span(message_)).subview(0, bytes); }
  void announce(std::uint64_t bytes) {
    communicator_.send(partner_, kTagPing, Communicator::as_bytes(std::span<const std::uint64_t>(&bytes, 1)));
  }
  double there_and_back(std::size_t bytes) {
    announce(bytes);
    const double start = communicator_.now();
    communicator_.send(partner_, kTagPing, View<const std::byte>(view(bytes)));
    communicator_.recv_exactly(partner_, kTagPing, view(bytes));
    return communicator_.now() - start;
  }

  Communicator& communicator_;
  int partner_;
  std::vector<std::byte> message_;
};

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

NetworkModel measure_network_briefly(Communicator& communicator) {
  DRAGONN_CHECK(communicator.size() > 1, "a network is measured between ranks, and there is one only");
  const int partner = first_rank_elsewhere(communicator);
  NetworkModel network;
  if (communicator.rank() == 0) network = fit_network(BriefProbe(communicator, partner).measure());
  if (communicator.rank() == partner) BriefProbe(communicator, partner).answer();
  communicator.broadcast_value(0, network);
  return network;
}

NetworkModel measure_network(Communicator& communicator) {
  return fit_network(ping_pong_times(communicator));
}

}  // namespace dragonn::comm
