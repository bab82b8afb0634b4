// SPDX-License-Identifier: MIT
/// `dragonn-bench network`: the time of messages between ranks 0 and 1, the alpha-beta model that fits it, and its
/// meaning for training.
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench/benchmark.h"
#include "bench/options.h"
#include "bench/ranks.h"
#include "bench/training_step.h"
#include "comm/network_model.h"
#include "comm/sparse/exchange_cost.h"
#include "compress/sparsifier.h"
#include "core/units_text.h"
#include "layers/graph.h"
#include "trainer/config/assemble.h"

namespace dragonn::bench {
namespace {

/// The training runs that the exchange is predicted for.
struct AdvisedRuns {
  std::vector<std::string> models{"resnet20", "vgg16"};
  int ranks = 4;
  double density = 0.01;  ///< of `topk` with the collective `allgather`
};

/// A dense exchange is called cheap if it takes at most this share of a step.
constexpr double kCheapShare = 0.1;

/// Returns the parameters of a model on the data that `dragonn-bench step` gives it.
std::size_t parameter_count(const std::string& model) {
  const StepSettings step = default_step(model);
  const auto& entry = Registry<layers::ModelEntry>::instance().at(model);
  const auto graph = entry.make(Settings(entry.settings), {step.sample, step.classes});
  std::size_t count = 0;
  for (const layers::ParameterSpec& parameter : graph->parameters()) count += parameter.shape.size();
  return count;
}

/// Returns the seconds of one exchange, by the collective's own formula with its default settings.
double predicted_seconds(const comm::NetworkModel& network, const std::string& collective, std::size_t numel,
                         const AdvisedRuns& runs) {
  const auto& entry = Registry<comm::SparseCollectiveEntry>::instance().at(collective);
  const auto& topk = Registry<compress::SparsifierEntry>::instance().at("topk");
  const std::size_t k = compress::target_count(runs.density, numel);
  const SelectionTraits traits = exchange::selection_traits({topk.name, Settings(topk.settings)});
  const comm::ExchangeSizes sizes = comm::expected_sizes(entry, traits, numel, k, runs.ranks);
  return entry.predict(Settings(entry.settings), sizes).seconds(network);
}

/// Returns lines that predict the seconds of a dense and of a sparse exchange per step (docs/algorithms.md, section 3),
/// say from which compute time on dense is cheap, and how a config names the network. @throws ConfigError for an
/// unknown model or a density outside (0, 1].
std::vector<std::string> network_advice(const comm::NetworkModel& network, const AdvisedRuns& runs) {
  std::vector<std::string> lines{"",
                                 fmt::format("Latency {:.3g} us and bandwidth {:.3g} Gbit/s fit these times.",
                                             network.latency_us(), network.gbps()),
                                 fmt::format("Predicted exchange of a step with {} workers:", runs.ranks)};
  for (const std::string& model : runs.models) {
    const std::size_t numel = parameter_count(model);
    const double dense = predicted_seconds(network, "dense", numel, runs);
    const double sparse = predicted_seconds(network, "allgather", numel, runs);
    lines.push_back(fmt::format("  {} ({:.3g} MB): dense ring allreduce {}, topk at density {} {};", model,
                                static_cast<double>(numel * sizeof(float)) * 1e-6, seconds_text(dense), runs.density,
                                seconds_text(sparse)));
    lines.push_back(
        fmt::format("    dense is fine, at most {:.0f} % of a step, if forward and backward take {} or more",
                    100 * kCheapShare, seconds_text(dense * (1 / kCheapShare - 1))));
  }
  lines.emplace_back("topk also has to select: dragonn-bench compress measures how long that takes.");
  lines.emplace_back("To have dragonn-train decide, and simulate local workers, by these numbers:");
  lines.push_back(
      fmt::format("  --set network.model=alpha-beta --set network.latency_us={:.4g} --set network.gbps={:.4g}",
                  network.latency_us(), network.gbps()));
  return lines;
}

class NetworkBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    add_list_option(command, "--model", advised_.models, "Models to predict the exchange of");
    command.add_option("--workers", advised_.ranks, "Workers to predict the exchange for")->check(CLI::Range(2, 4096));
    command.add_option("--density", advised_.density, "Density of the sparse exchange to predict, in (0, 1]");
    command.add_option("--timeout", timeout_s_, "Longest wait for a message, in seconds")->check(CLI::PositiveNumber);
  }

  Rows run(Progress& progress) override {
    network_advice({.latency_seconds = 0, .bytes_per_second = 1}, advised_);  // refuses bad options before the work
    progress.plan(1);
    progress.announce("messages of 8 bytes to 1.05 MB between two ranks, 19 MB each way");
    std::vector<comm::PingPong> times;
    std::string backend;
    run_ranks(/*local_ranks=*/2, timeout_s_, [&](comm::Communicator& communicator) {
      const std::vector<comm::PingPong> measured = comm::ping_pong_times(communicator);
      if (communicator.rank() != 0) return;
      times = measured;
      backend = communicator.backend();
    });
    progress.advance(1, "messages of 8 bytes to 1.05 MB");
    if (times.empty()) return {};
    const comm::NetworkModel network = fit_network(times);
    remarks_ = network_advice(network, advised_);
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

  std::vector<std::string> remarks() const override { return remarks_; }

 private:
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
