// SPDX-License-Identifier: MIT
#include "comm/network_model.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "comm/machine.h"
#include "comm/subgroup.h"
#include "core/error.h"
#include "core/settings.h"

namespace dragonn::comm {
namespace {

constexpr int kWarmUps = 3;
constexpr int kRuns = 11;  // odd: the median is one of them
constexpr std::array<std::size_t, 4> kSizes{8, 1 << 16, 1 << 18, 1 << 20};

constexpr std::array<std::size_t, 3> kBriefSizes{8, 1 << 16, 1 << 20};
constexpr double kBriefSeconds = 0.25;
constexpr std::size_t kBriefRuns = 3;
constexpr double kShortest = 1e-9;  // a clock may be coarse

/// Sends a message from rank 0 to a partner that sends it back. Returns the seconds of both ways.
double there_and_back(Communicator& communicator, int partner, View<std::byte> message) {
  const double start = communicator.now();
  communicator.send(partner, kTagPing, View<const std::byte>(message));
  communicator.recv_exactly(partner, kTagPing, message);
  return communicator.now() - start;
}

void send_back(Communicator& communicator, View<std::byte> message) {
  communicator.recv_exactly(0, kTagPing, message);
  communicator.send(0, kTagPing, View<const std::byte>(message));
}

/// Measures on rank 0. Before each message the partner learns its size, 0 at the end. The first message of a size only
/// counts if there is no time for another.
std::vector<PingPong> brief_times(Communicator& communicator, int partner) {
  std::vector<std::byte> memory(kBriefSizes.back());
  const auto announce = [&](std::uint64_t bytes) {
    communicator.send(partner, kTagPing, Communicator::as_bytes(std::span<const std::uint64_t>(&bytes, 1)));
  };
  const auto measure = [&](std::size_t bytes) {
    announce(bytes);
    return there_and_back(communicator, partner, View<std::byte>(std::span(memory)).subview(0, bytes));
  };
  std::vector<PingPong> times;
  const double begin = communicator.now();
  const auto elapsed = [&] { return communicator.now() - begin; };
  double until = 0;
  for (const std::size_t bytes : kBriefSizes) {
    // At least two sizes give a latency and a bandwidth.
    if (times.size() >= 2 && elapsed() >= kBriefSeconds) break;
    until += kBriefSeconds / kBriefSizes.size();
    std::vector<double> seconds{measure(bytes)};
    for (std::size_t run = 0; run < kBriefRuns && elapsed() < until; ++run) {
      if (run == 0) seconds.clear();
      seconds.push_back(measure(bytes));
    }
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::ranges::nth_element(seconds, middle);
    times.push_back({bytes, std::max(*middle / 2, kShortest)});
  }
  announce(0);
  return times;
}

/// Sends back what comes from rank 0 until it announces the end.
void answer_brief_times(Communicator& communicator) {
  std::vector<std::byte> memory(kBriefSizes.back());
  for (;;) {
    std::uint64_t bytes = 0;
    communicator.recv_exactly(0, kTagPing, Communicator::as_writable_bytes(std::span(&bytes, 1)));
    if (bytes == 0) return;
    DRAGONN_CHECK(bytes <= memory.size(), "rank 0 announces a message of {} bytes to measure the network", bytes);
    send_back(communicator, View<std::byte>(std::span(memory)).subview(0, bytes));
  }
}

}  // namespace

const std::vector<NetworkPreset>& network_presets() {
  static const std::vector<NetworkPreset> table{
      {"1gbe",
       {.latency_seconds = 0.436e-3, .bytes_per_second = 1 / 9e-9},
       "gTop-k's cluster, as measured for that paper in 2019: its latency is far above that of a switch"},
      {"1gbe-switch", NetworkModel::from_units(/*latency_us=*/50, /*gbps=*/1), "a 1 Gbit/s switch of today"},
      {"10gbe", NetworkModel::from_units(/*latency_us=*/50, /*gbps=*/10), "nominal bandwidth, usual latency"},
      {"25gbe", NetworkModel::from_units(/*latency_us=*/20, /*gbps=*/25), "DRAGONN's example: docs/algorithms.md, 4.1"},
      {"100g-ib", NetworkModel::from_units(/*latency_us=*/1.5, /*gbps=*/100), "nominal bandwidth, usual latency"},
  };
  return table;
}

std::vector<std::string> network_preset_names() {
  std::vector<std::string> names;
  for (const NetworkPreset& preset : network_presets()) names.push_back(preset.name);
  return names;
}

const NetworkPreset& find_network_preset(const std::string& name) {
  const auto found = std::ranges::find(network_presets(), name, &NetworkPreset::name);
  if (found == network_presets().end())
    throw ConfigError(unknown_name_message("network preset", name, network_preset_names()));
  return *found;
}

const NetworkModel& network_preset(const std::string& name) {
  return find_network_preset(name).network;
}

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

double ping_pong_seconds(Communicator& communicator, std::size_t bytes) {
  std::vector<std::byte> memory(bytes);
  const View<std::byte> message{std::span(memory)};
  std::array<double, kRuns> seconds{};
  for (int run = -kWarmUps; run < kRuns; ++run) {
    if (communicator.rank() == 1) {
      send_back(communicator, message);
      continue;
    }
    const double both_ways = there_and_back(communicator, 1, message);
    if (run >= 0) seconds[static_cast<std::size_t>(run)] = both_ways / 2;
  }
  std::ranges::nth_element(seconds, seconds.begin() + kRuns / 2);
  double middle = seconds[kRuns / 2];
  const View<std::byte> result = Communicator::as_writable_bytes(std::span(&middle, 1));
  if (communicator.rank() == 0) communicator.send(1, kTagPing, View<const std::byte>(result));
  if (communicator.rank() == 1) communicator.recv_exactly(0, kTagPing, result);
  return middle;
}

std::vector<PingPong> ping_pong_times(Communicator& communicator) {
  DRAGONN_CHECK(communicator.size() > 1, "a network is measured between ranks, and there is one only");
  const int partner = first_rank_elsewhere(communicator);
  std::optional<Subgroup> pair;
  if (communicator.rank() == 0 || communicator.rank() == partner) pair.emplace(communicator, std::vector{0, partner});
  std::vector<PingPong> times;
  for (const std::size_t bytes : kSizes) {
    PingPong time{bytes, 0};
    if (pair) time.seconds = ping_pong_seconds(*pair, bytes);
    communicator.broadcast_value(0, time.seconds);
    times.push_back(time);
  }
  return times;
}

NetworkModel measure_network_briefly(Communicator& communicator) {
  DRAGONN_CHECK(communicator.size() > 1, "a network is measured between ranks, and there is one only");
  const int partner = first_rank_elsewhere(communicator);
  NetworkModel network;
  if (communicator.rank() == 0) network = fit_network(brief_times(communicator, partner));
  if (communicator.rank() == partner) answer_brief_times(communicator);
  communicator.broadcast_value(0, network);
  return network;
}

NetworkModel measure_network(Communicator& communicator) {
  return fit_network(ping_pong_times(communicator));
}

}  // namespace dragonn::comm
