// SPDX-License-Identifier: MIT
/// `dragonn-bench network`: what messages cost between ranks 0 and 1, and the alpha-beta model that fits.
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/benchmark.h"
#include "bench/ranks.h"
#include "comm/network_probe.h"

namespace dragonn::bench {
namespace {

class NetworkBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    command.add_option("--timeout", timeout_s_, "longest wait for a message, in seconds")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
  }

  Rows run() override {
    Rows rows;
    run_ranks(/*local_ranks=*/2, timeout_s_, [&](comm::Communicator& communicator) {
      const std::vector<comm::PingPong> times = comm::ping_pong_times(communicator);
      if (communicator.rank() == 0) rows = to_rows(times, communicator.backend());
    });
    return rows;
  }

 private:
  static Rows to_rows(const std::vector<comm::PingPong>& times, const std::string& backend) {
    const comm::NetworkModel network = fit_network(times);
    Rows rows;
    for (const comm::PingPong& time : times) {
      const double bytes = static_cast<double>(time.bytes);
      rows.push_back({{"backend", backend},
                      {"bytes", time.bytes},
                      {"seconds", time.seconds},
                      {"seconds_fit", network.seconds(/*messages=*/1, bytes)},
                      {"gbps", bytes * 8 / 1e9 / time.seconds},
                      {"fit_latency_us", network.latency_us()},
                      {"fit_gbps", network.gbps()}});
    }
    return rows;
  }

  double timeout_s_ = 120;
};

const Registration<BenchmarkEntry> registration{
    {{"network", "seconds of a message between two ranks by size, and the latency and bandwidth that fit"},
     [] { return std::make_unique<NetworkBenchmark>(); }}};

}  // namespace
}  // namespace dragonn::bench
