// SPDX-License-Identifier: MIT
/// `dragonn-bench network`: the time of messages between two machines, the alpha-beta model that fits it, and its
/// meaning for training; with `--pairs` what each two nodes have, as a network file.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench/benchmark.h"
#include "bench/options.h"
#include "bench/training_step.h"
#include "comm/machine.h"
#include "comm/measure_pairs.h"
#include "comm/network_file.h"
#include "comm/network_model.h"
#include "comm/nodes.h"
#include "comm/sparse/exchange_cost.h"
#include "compress/sparsifier.h"
#include "core/units_text.h"
#include "layers/graph.h"
#include "trainer/config/config.h"

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

double gbps_of(double bytes_per_second) {
  return comm::NetworkModel{0, bytes_per_second}.gbps();
}

/// Returns a row for each ordered pair of nodes, and for each node with several workers.
Rows rows_of(const comm::NodeLinks& links, const std::string& backend) {
  Rows rows;
  const std::size_t count = links.workers.size();
  const auto name = [&](std::size_t node) { return fmt::format("{} {}", node, links.names[node]); };
  for (std::size_t from = 0; from < count; ++from) {
    for (std::size_t to = 0; to < count; ++to) {
      const bool is_inside = from == to;
      if (is_inside && links.workers[from] == 1) continue;
      const comm::NetworkModel& link = is_inside ? links.inside[from] : links.pairs[from * count + to];
      const double none = std::nan("");
      rows.push_back({{"backend", backend},
                      {"from", name(from)},
                      {"to", name(to)},
                      {"latency_us", link.latency_us()},
                      {"gbps", link.gbps()},
                      {"up_gbps", or_null(is_inside ? none : gbps_of(links.up[from]))},
                      {"down_gbps", or_null(is_inside ? none : gbps_of(links.down[to]))}});
    }
  }
  return rows;
}

class NetworkBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    add_list_option(command, "--model", advised_.models, "Models to predict the exchange of");
    command.add_option("--workers", advised_.ranks, "Workers to predict the exchange for")->check(CLI::Range(2, 4096));
    command.add_option("--density", advised_.density, "Density of the sparse exchange to predict, in (0, 1]");
    command.add_option("--timeout", timeout_s_, "Longest wait for a message, in seconds")->check(CLI::PositiveNumber);
    CLI::Option* const pairs = command.add_flag(
        "--pairs", pairs_,
        "Measure each ordered pair of nodes, each node's port and what is inside nodes; --json then writes a network "
        "file, which network.file reads");
    command
        .add_option("--seconds", seconds_,
                    "Seconds that a long message takes, about, with --pairs: more where connections are slow to start")
        ->check(CLI::Range(0.001, 60.0))
        ->needs(pairs);
  }

  Rows run(Progress& progress) override { return pairs_ ? run_pairs(progress) : run_messages(progress); }

  std::vector<std::string> remarks() const override { return remarks_; }
  std::string document() const override { return document_; }

 private:
  Rows run_messages(Progress& progress) {
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

  Rows run_pairs(Progress& progress) {
    std::optional<comm::NodeLinks> links;
    std::string backend;
    run_ranks(/*local_ranks=*/2, timeout_s_, [&](comm::Communicator& communicator) {
      const comm::Nodes nodes = comm::find_nodes(communicator);
      const bool reports = communicator.rank() == 0;
      if (reports) progress.plan(static_cast<double>(comm::parts_of_measurement(nodes)));
      const auto advance = [&](std::size_t done, std::size_t parts) {
        if (reports) progress.advance(1, fmt::format("part {} of {}", done, parts));
      };
      comm::NodeLinks measured = comm::measure_pairs(communicator, nodes, {.seconds = seconds_, .on_part = advance});
      if (!reports) return;
      links = std::move(measured);
      backend = communicator.backend();
    });
    if (!links) return {};
    document_ =
        comm::network_file_text(*links, fmt::format("measured over {} by dragonn-bench network --pairs", backend));
    remarks_ = {"", fmt::format("{}.", describe(*links))};
    return rows_of(*links, backend);
  }

  AdvisedRuns advised_;
  double timeout_s_ = 120;
  bool pairs_ = false;
  double seconds_ = comm::PairsMeasurement{}.seconds;
  std::vector<std::string> remarks_;
  std::string document_;
};

const Registration<BenchmarkEntry> registration{
    {{"network", "Measures latency and bandwidth, and predicts the cost of exchanges"},
     [] { return std::make_unique<NetworkBenchmark>(); },
     {.conditions = {},
      .results = {"backend", "from", "to", "latency_us", "up_gbps", "down_gbps", "bytes", "seconds", "seconds_fit",
                  "gbps", "fit_latency_us", "fit_gbps"}},
     {"network", "network --model vgg16,lstm_lm --workers 16 --density 0.001", "network --pairs --json net.json"}}};

}  // namespace
}  // namespace dragonn::bench
