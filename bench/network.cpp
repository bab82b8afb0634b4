// SPDX-License-Identifier: MIT
/// `dragonn-bench network`: the time of messages between ranks 0 and 1, the alpha-beta model that fits it, and its
/// meaning for training.
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/benchmark.h"
#include "bench/network_advice.h"
#include "bench/ranks.h"
#include "comm/network_probe.h"

namespace dragonn::bench {
namespace {

class NetworkBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    command.add_option("--model", advised_.models, "Models to predict the exchange of")
        ->delimiter(',')
        ->capture_default_str();
    command.add_option("--workers", advised_.ranks, "Workers to predict the exchange for")
        ->check(CLI::Range(2, 4096))
        ->capture_default_str();
    command.add_option("--density", advised_.density, "Density of the sparse exchange to predict, in (0, 1]")
        ->capture_default_str();
    command.add_option("--timeout", timeout_s_, "Longest wait for a message, in seconds")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
  }

  Rows run(Progress& progress) override {
    network_advice({.latency_seconds = 0, .bytes_per_second = 1}, advised_);  // refuses bad options before the work
    progress.plan(1);
    progress.announce("messages of 8 bytes to 1 MiB between two ranks, 19 MB each way");
    std::vector<comm::PingPong> times;
    std::string backend;
    run_ranks(/*local_ranks=*/2, timeout_s_, [&](comm::Communicator& communicator) {
      const std::vector<comm::PingPong> measured = comm::ping_pong_times(communicator);
      if (communicator.rank() != 0) return;
      times = measured;
      backend = communicator.backend();
    });
    progress.advance(1, "messages of 8 bytes to 1 MiB");
    if (times.empty()) return {};
    const comm::NetworkModel network = fit_network(times);
    remarks_ = network_advice(network, advised_);
    return to_rows(times, network, backend);
  }

  std::vector<std::string> remarks() const override { return remarks_; }

 private:
  static Rows to_rows(const std::vector<comm::PingPong>& times, const comm::NetworkModel& network,
                      const std::string& backend) {
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

  AdvisedRuns advised_;
  double timeout_s_ = 120;
  std::vector<std::string> remarks_;
};

const Registration<BenchmarkEntry> registration{
    {{"network", "Measures latency and bandwidth, and predicts the cost of exchanges"},
     [] { return std::make_unique<NetworkBenchmark>(); },
     {.conditions = {},
      .results = {"backend", "bytes", "seconds", "seconds_fit", "gbps", "fit_latency_us", "fit_gbps"}},
     {"network", "network --model vgg16,lstm_lm --workers 16 --density 0.001"}}};

}  // namespace
}  // namespace dragonn::bench
