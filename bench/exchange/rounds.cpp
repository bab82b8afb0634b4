// SPDX-License-Identifier: MIT
/// `dragonn-bench rounds`: bytes and virtual time of the update schemes for the tensors of a model, without training
/// it.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include "bench/benchmark.h"
#include "bench/exchange/line_figure.h"
#include "bench/exchange/stand_in.h"
#include "bench/options.h"
#include "bench/training_step.h"
#include "comm/local/local.h"
#include "core/choice.h"
#include "core/file.h"
#include "core/units_text.h"
#include "trainer/run/generation.h"
#include "trainer/run/plan.h"

namespace dragonn::bench {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
/// Seconds of wall time that a rank waits for another one, whose tensors may be large.
constexpr double kTimeout = 3600;

using Assignments = std::vector<std::string>;

/// A way to train, as keys of a config.
struct Method {
  const char* name;
  bool steps_locally;
  bool streams;  ///< fragments of the model take turns, each beside inner steps
  Assignments assignments;
};

const std::vector<Method>& methods() {
  const Assignments diloco{"update.scheme=local"};
  const Assignments sparseloco{"update.scheme=local",
                               "update.outer.learning_rate=1",
                               "update.outer.momentum=0",
                               "compression.method=chunktopk",
                               "compression.density=0.015625",
                               "compression.residual.decay=0.95",
                               "compression.include_vectors=yes",
                               "compression.codec.indices=rice",
                               "compression.codec.values=mag2"};
  static const std::vector<Method> table{{"dense", false, false, {}},
                                         {"topk", false, false, {"compression.method=topk"}},
                                         {"diloco", true, false, diloco},
                                         {"sparseloco", true, false, sparseloco},
                                         {"streaming_diloco", true, true, diloco},
                                         {"streaming_sparseloco", true, true, sparseloco}};
  return table;
}

const Method& find_method(const std::string& name) {
  return *std::ranges::find(methods(), name, &Method::name);
}

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const Method& method : methods()) names.emplace_back(method.name);
  return names;
}

/// Returns data for a loader: the batches of a stand-in have no meaning.
data::DatasetSplits tiny_images(int ranks) {
  const auto& entry = Registry<data::DatasetEntry>::instance().at("synthetic_images");
  Settings settings(entry.settings);
  for (const char* extent : {"height", "width", "channels", "test_samples"}) settings.set(extent, std::int64_t{1});
  settings.set("train_samples", std::int64_t{ranks});
  return entry.load(settings, "", /*seed=*/1);
}

/// The measured steps of one rank.
struct RankWork {
  double seconds = 0;      ///< by its clock
  comm::Traffic payload;   ///< of exchanges
  comm::Traffic control;   ///< counts, flags and agreement
  comm::ListCounts lists;  ///< of the last exchange
};

comm::Traffic payload_of(const comm::PhaseTraffic& traffic) {
  return traffic[static_cast<std::size_t>(comm::Phase::kExchange)];
}
comm::Traffic control_of(const comm::PhaseTraffic& traffic) {
  comm::Traffic sum = traffic[static_cast<std::size_t>(comm::Phase::kHeader)];
  return sum += traffic[static_cast<std::size_t>(comm::Phase::kControl)];
}

/// Collective. Runs the steps, of which the last `measured` count.
RankWork run_steps(trainer::Generation& generation, std::uint64_t steps, std::uint64_t measured,
                   const std::function<void()>& on_step) {
  comm::Communicator& communicator = generation.communicator;
  const trainer::Config& config = generation.config;
  double begin = 0;
  comm::PhaseTraffic before;
  for (std::uint64_t step = 0; step < steps; ++step) {
    if (step + measured == steps) {
      begin = communicator.now();
      before = communicator.traffic().by_phase();
    }
    generation.sample.timers.reset();
    generation.scheme->step(generation, {.learning_rate = config.optimizer.learning_rate,
                                         .density = config.compression.density,
                                         .free_steps = steps - step - 1});
    ++generation.state.progress.step;
    const ClockPause pause(communicator.clock());
    on_step();
  }
  const comm::PhaseTraffic traffic = communicator.traffic().by_phase() - before;
  return {communicator.now() - begin, payload_of(traffic), control_of(traffic),
          generation.gradient_exchange->counts().lists};
}

/// Returns an SVG file: the share of the time computing against the bandwidth, a line for each method and number of
/// ranks.
std::string computing_figure(const Rows& rows, const std::string& title) {
  LineFigure figure{.title = title, .x_name = "bandwidth of a worker's link"};
  std::map<double, std::string> bandwidths;
  std::set<int> ranks;
  for (const auto& row : rows) ranks.insert(row["ranks"].get<int>());
  for (const auto& row : rows) {
    std::string label = row["method"];
    if (ranks.size() > 1) label += fmt::format(", {} ranks", row["ranks"].get<int>());
    const double gbps = row["gbps"], place = std::log10(gbps);
    figure.line(label).measured.emplace_back(place, row["computing"].get<double>());
    bandwidths[place] = bandwidth_text(gbps);
  }
  for (LineFigure::Line& line : figure.lines) std::ranges::sort(line.measured);
  figure.x_ticks.assign(bandwidths.begin(), bandwidths.end());
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) figure.y_ticks.emplace_back(share, percent_text(share));
  return figure.draw();
}

class RoundsBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    command.add_option("--model", model_, "Model whose tensors are exchanged");
    command.add_option("--classes", classes_, "Classes of the model, or tokens of its vocabulary")
        ->check(CLI::Range(2, 1 << 24));
    add_list_option(command, "--method", methods_, "Ways to train")->check(CLI::IsMember(method_names()));
    command.add_option("--inner-steps", inner_steps_, "Steps between exchanges, where each worker steps by itself")
        ->check(CLI::Range(1, 100000));
    command.add_option("--fragments", fragments_, "Parts of the model that take turns, where a method streams")
        ->check(CLI::Range(1, 100000));
    command.add_option("--overlap-steps", overlap_steps_, "Steps of a worker beside the exchange of a part, likewise")
        ->check(CLI::Range(0, 100000));
    add_set_option(command, assignments_,
                   "Override a key of the config that a method stands for, such as compression.collective=gtopk or "
                   "model.layers=2 (repeatable)",
                   "TABLE.KEY=VALUE");
    add_list_option(command, "--ranks", ranks_, "Numbers of workers: threads of this process")
        ->check(CLI::Range(1, 4096));
    add_list_option(command, "--gbps", gbps_, "Bandwidths of a worker's link in 10^9 bits per second")
        ->check(CLI::PositiveNumber);
    command.add_option("--latency-us", latency_us_, "Latency of a message in microseconds")
        ->check(CLI::NonNegativeNumber);
    command.add_option("--step-ms", step_ms_, "Described milliseconds of a step's forward and backward")
        ->check(CLI::NonNegativeNumber);
    command
        .add_option(
            "--compute", compute_,
            "What all other work costs, selecting and coding included. zero: nothing; measured: the CPU time of "
            "each worker's thread")
        ->check(CLI::IsMember(choice_names<comm::Compute>()));
    command
        .add_option("--scale", scale_,
                    "Save memory: the last axis of every tensor and the bandwidth are so many times smaller. Bytes are "
                    "those of the whole model")
        ->check(CLI::Range(1, 4096));
    command.add_option("--rounds", rounds_, "Measured exchanges, after one that is not")->check(CLI::Range(1, 1000));
    command
        .add_option("--svg", svg_, "Also draw a figure of the share of time computing against the bandwidth to FILE")
        ->type_name("FILE");
    command.add_option("--title", title_, "Title of the figure");
  }

  Rows run(Progress& progress) override {
    if (scale_ != 1 && compute_ == name_of(comm::Compute::kMeasured))
      throw ConfigError("--compute measured: expected --scale 1, as less of a model takes less CPU time");
    std::vector<Case> cases;
    double work = 0;
    for (const int ranks : ranks_) {
      for (const std::string& method : methods_) {
        for (const double gbps : gbps_) {
          cases.push_back({method, ranks, gbps, config_of(find_method(method), gbps)});
          work += static_cast<double>(ranks) * static_cast<double>(steps(cases.back(), rounds_ + 1));
        }
      }
    }
    progress.plan(work);
    Rows rows;
    for (const Case& one : cases) rows.push_back(measure(one, progress));
    if (!svg_.empty()) write_file_atomically(svg_, computing_figure(rows, title_));
    return rows;
  }

 private:
  struct Case {
    std::string method;
    int ranks = 0;
    double gbps = 0;
    trainer::RunSpec config;
  };

  static std::uint64_t steps(const Case& one, int rounds) {
    return static_cast<std::uint64_t>(rounds) * one.config.update.steps_per_exchange();
  }

  /// Makes the config of a run. All buckets are one group, unless an assignment says otherwise: on slow networks that
  /// is best. The data set named is never read.
  trainer::RunSpec config_of(const Method& method, double gbps) const {
    std::vector<std::string> overrides{"model.name=" + model_,
                                       "data.name=token_shards",
                                       "data.path=.",
                                       "train.batch_size=1",
                                       "train.epochs=1000000",
                                       "optimizer.momentum=0",
                                       "compression.fusion_mib=1e6",
                                       "network.model=alpha-beta",
                                       fmt::format("network.latency_us={}", latency_us_),
                                       fmt::format("network.gbps={}", gbps),
                                       fmt::format("network.step_ms={}", step_ms_),
                                       "network.compute=" + compute_};
    std::ranges::copy(method.assignments, std::back_inserter(overrides));
    if (method.steps_locally) overrides.push_back(fmt::format("update.inner_steps={}", inner_steps_));
    if (method.streams) {
      overrides.push_back(fmt::format("update.fragments={}", fragments_));
      overrides.push_back(fmt::format("update.overlap_steps={}", overlap_steps_));
    }
    std::ranges::copy(assignments_, std::back_inserter(overrides));
    trainer::RunSpec config = trainer::parse_config("", "dragonn-bench rounds", overrides);
    config.rules.fusion.bytes /= static_cast<std::size_t>(scale_);
    return config;
  }

  nlohmann::ordered_json measure(const Case& one, Progress& progress) const {
    const trainer::Job job{.config = one.config, .data = tiny_images(one.ranks), .folder = {}, .resume = {}};
    const data::Dataset& images = *job.data.train;
    const auto model =
        job.config.model.entry().make(job.config.model.settings, {default_step(model_).sample, classes_});
    const auto make_network = [&] {
      return layers::Network(make_stand_in(*model, scale_, {images.sample_shape(), images.classes()}), 0.0);
    };
    const trainer::RunPlan plan = plan_run(job.config, make_network(), one.ranks);
    const comm::LocalOptions cluster{.timeout_s = kTimeout,
                                     .network = comm::NetworkModel::from_units(latency_us_, one.gbps / scale_),
                                     .compute = job.config.network.compute};
    std::vector<RankWork> work(static_cast<std::size_t>(one.ranks));
    comm::run_local(one.ranks, cluster, [&](comm::Communicator& communicator) {
      omp_set_num_threads(1);  // ranks share the machine
      trainer::TrainingState state(job.config, make_network());
      trainer::Generation generation(job, plan, state, communicator);
      work[static_cast<std::size_t>(communicator.rank())] =
          run_steps(generation, steps(one, rounds_ + 1), steps(one, rounds_), [&] {
            if (communicator.rank() == 0)
              progress.advance(one.ranks, fmt::format("{} of {} ranks, {} Gbit/s", one.method, one.ranks, one.gbps));
          });
    });
    return row_of(one, plan, work);
  }

  nlohmann::ordered_json row_of(const Case& one, const trainer::RunPlan& plan,
                                const std::vector<RankWork>& work) const {
    const trainer::Config& config = one.config;
    const trainer::UpdateTraits traits = config.update.traits();
    const auto count = static_cast<double>(steps(one, rounds_));
    const auto over_ranks = [&](auto&& quantity) {
      trainer::MeanMax result;
      for (const RankWork& rank : work) {
        result.mean += quantity(rank) / one.ranks;
        result.max = std::max(result.max, quantity(rank));
      }
      return result;
    };
    // Only payloads are of a part of the model.
    const auto bytes = [&](std::uint64_t comm::Traffic::*direction) {
      return over_ranks([&](const RankWork& rank) {
        return (static_cast<double>(rank.payload.*direction) * scale_ + static_cast<double>(rank.control.*direction)) /
               count;
      });
    };
    const trainer::MeanMax sent = bytes(&comm::Traffic::bytes_sent), received = bytes(&comm::Traffic::bytes_received);
    const double payload =
        over_ranks([&](const RankWork& rank) { return rank.payload.bytes_sent * scale_ / count; }).mean;
    const double parameters = static_cast<double>(plan.parameters) * scale_;
    const double formula = plan.exchange.cost().bytes_sent * scale_ / static_cast<double>(plan.steps_per_exchange);
    const double dense = 2 * comm::share_of_others(one.ranks) * parameters * sizeof(float);
    const double seconds = over_ranks([](const RankWork& rank) { return rank.seconds; }).max / count;
    const comm::ListCounts& lists = work.front().lists;
    const auto statistics = [](const trainer::MeanMax& value) {
      return nlohmann::ordered_json{{"mean", value.mean}, {"max", value.max}};
    };
    return {{"method", one.method},
            {"model", model_},
            {"parameters", parameters},
            {"ranks", one.ranks},
            {"steps_per_exchange", plan.steps_per_exchange},
            {"fragments", traits.fragments},
            {"overlap_steps", traits.overlap_steps},
            {"density", config.compression.selects() ? nlohmann::ordered_json(config.compression.density) : nullptr},
            {"collective", config.compression.is_dense() ? "dense" : config.compression.collective.name},
            {"indices", config.compression.codec.indices.name},
            {"values", config.compression.codec.values.name},
            {"latency_us", latency_us_},
            {"gbps", one.gbps},
            {"step_ms", step_ms_},
            {"compute", compute_},
            {"scale", scale_},
            {"steps", count},
            {"seconds_per_step", seconds},
            {"computing", step_ms_ / 1e3 / seconds},
            {"bytes_sent", statistics(sent)},
            {"bytes_received", statistics(received)},
            {"control_bytes", over_ranks([&](const RankWork& rank) { return rank.control.bytes_sent / count; }).mean},
            {"messages", over_ranks([&](const RankWork& rank) { return rank.payload.messages_sent / count; }).mean},
            {"bytes_formula", formula},
            {"bytes_of_formula", or_null(payload / formula)},
            {"message_bytes", or_null(lists.entries > 0 ? static_cast<double>(lists.bytes) * scale_ : kUnknown)},
            {"bits_per_entry", or_null(lists.bits_per_entry())},
            {"dense_bytes", dense},
            {"times_fewer", or_null(dense / sent.mean)},
            {"times_fewer_at_busiest", or_null(dense / std::max(sent.max, received.max))}};
  }

  std::string model_ = "gpt2";
  int classes_ = 50257;  // of GPT-2's vocabulary
  std::vector<std::string> methods_ = method_names();
  int inner_steps_ = 30;
  int fragments_ = 2;
  int overlap_steps_ = 14;
  std::vector<std::string> assignments_;
  std::vector<int> ranks_{8};
  std::vector<double> gbps_{0.1};
  double latency_us_ = 50000;
  double step_ms_ = 100;
  std::string compute_ = name_of(comm::Compute::kZero);
  int scale_ = 1;
  int rounds_ = 1;
  std::string svg_;
  std::string title_ = "Share of the time computing";
};

const Registration<BenchmarkEntry> registration{
    {{"rounds", "Counts bytes and virtual time of update schemes for a model's tensors, without training"},
     [] { return std::make_unique<RoundsBenchmark>(); },
     {.conditions = {"model", "parameters", "ranks", "gbps", "latency_us", "step_ms", "compute", "scale"},
      .results = {"method", "steps_per_exchange", "computing", "seconds_per_step", "bytes_sent", "times_fewer",
                  "bytes_of_formula", "collective"}},
     {"rounds --scale 12", "rounds --method sparseloco --ranks 16 --scale 12 --set compression.collective=gtopk",
      "rounds --method dense,sparseloco --ranks 8 --scale 12 --gbps 0.01,0.1,1,10 --json rounds.json"}}};

}  // namespace
}  // namespace dragonn::bench
