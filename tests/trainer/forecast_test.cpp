// SPDX-License-Identifier: MIT
/// Tests of forecasts against training: the bytes that every sparsifier sends, with every collective that fits, over
/// gradients of small networks that learn.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "data/loader.h"
#include "exchange/exchange_plan.h"
#include "tests/exchange/combinations.h"
#include "tests/support/text.h"
#include "tests/trainer/quick_run.h"
#include "trainer/run/evaluation.h"
#include "trainer/run/plan.h"
#include "trainer/update/schemes/step.h"

namespace dragonn::trainer::testing {
namespace {

using namespace exchange::testing;
using dragonn::test::contains;

constexpr std::uint64_t kWindow = 10;
constexpr std::uint64_t kSteps = 60;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const std::vector<int> kForecastWorlds{3};
#else
const std::vector<int> kForecastWorlds{2, 3, 6};
#endif

/// Ten classes of images that a network tells apart after some hundred steps.
const std::vector<std::string> kImages{
    "data.height=8",     "data.width=8",       "data.classes=10",        "data.train_samples=600",
    "model.hidden=[64]", "train.batch_size=4", "optimizer.momentum=0.9", "compression.density=0.03"};

constexpr const char* kMnist = R"(
seed = 7
device = "cpu"
[model]
name = "mlp"
hidden = [32]
[data]
name = "mnist"
[train]
epochs = 1
batch_size = 8
[optimizer]
name = "sgd"
learning_rate = 0.05
momentum = 0.9
[compression]
density = 0.01
)";

/// The payload that a worker sent in a step, mean over workers, by step.
std::vector<double> sent_bytes(const RunSpec& config, const data::DatasetSplits& data, int world, std::uint64_t steps) {
  std::vector<double> sent(steps);
  const auto ranks = static_cast<std::size_t>(world);
  std::vector<std::vector<double>> by_rank(ranks, sent);
  comm::run_local(world, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    omp_set_num_threads(1);
    layers::Network network = make_network(config, *data.train);
    network.initialize(static_cast<std::uint64_t>(config.seed));
    data::Loader loader(data.train, {.batch = static_cast<std::size_t>(config.train.batch_size),
                                     .seed = 1,
                                     .rank = communicator.rank(),
                                     .world = world});
    exchange::GradientExchange exchange(config.rules, network.arena(), communicator);
    const auto optimizer = config.optimizer.entry().make(config.optimizer.settings, network.arena());
    for (std::uint64_t step = 0; step < steps; ++step) {
      network.forward(network_batch(loader.next()), layers::Mode::kTrain, step, communicator.rank());
      network.backward({});
      StepTimers timers;
      const comm::PhaseTraffic before = communicator.traffic().by_phase();
      const auto sums = exchange.run({.step = step, .density = config.compression.density, .learning_rate = 1},
                                     network.arena().gradients(), timers);
      exchange.commit(timers);
      const comm::PhaseTraffic traffic = communicator.traffic().by_phase() - before;
      by_rank[static_cast<std::size_t>(communicator.rank())][step] =
          static_cast<double>(traffic[static_cast<std::size_t>(comm::Phase::kExchange)].bytes_sent);
      optimizer->begin_step(config.optimizer.learning_rate, step);
      apply_sums(sums, 1.0f, *optimizer);
    }
  });
  for (const std::vector<double>& one : by_rank) {
    for (std::uint64_t step = 0; step < steps; ++step) sent[step] += one[step] / world;
  }
  return sent;
}

ByteForecast forecast_of(const RunSpec& config, const data::DatasetSplits& data, int world) {
  const layers::Network network = make_network(config, *data.train);
  const double density = config.compression.density;
  return exchange::forecast_bytes(config.rules, exchange::plan_exchange(config.rules, network.arena(), density, world),
                                  density, world);
}

/// Checks the mean of every ten steps against its part's range.
void check_windows(const RunSpec& config, const data::DatasetSplits& data, int world, std::uint64_t steps) {
  const ByteForecast forecast = forecast_of(config, data, world);
  CAPTURE(world);
  CAPTURE(exchange::describe(forecast));
  const std::vector<double> sent = sent_bytes(config, data, world, steps);
  for (std::uint64_t begin = 0; begin < steps; begin += kWindow) {
    CAPTURE(begin);
    double mean = 0;
    for (std::uint64_t step = begin; step < begin + kWindow; ++step) mean += sent[step] / kWindow;
    const ByteRange& range = begin < forecast.first_steps ? forecast.first : forecast.settled;
    // A bucket's list is a whole number of entries.
    CHECK(mean >= range.low * 0.999 - 64);
    CHECK(mean <= range.high * 1.001 + 64);
  }
}

/// The pairs of a sparsifier and a collective that fit.
std::vector<std::pair<std::string, std::string>> pairs() {
  std::vector<std::pair<std::string, std::string>> fitting;
  for (const std::string& sparsifier : Registry<compress::SparsifierEntry>::instance().names()) {
    for (const std::string& collective : Registry<comm::SparseCollectiveEntry>::instance().names()) {
      if (collective != "dense" && fits({sparsifier, collective, "residual"}))
        fitting.emplace_back(sparsifier, collective);
    }
  }
  return fitting;
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("training sends what is forecast: every ten steps, every sparsifier x collective") {
    const data::DatasetSplits data = load_data(quick_config(kImages));
    for (const auto& [sparsifier, collective] : pairs()) {
      INFO(sparsifier, " x ", collective);
      const RunSpec config =
          quick_config(with(kImages, {"compression.method=" + sparsifier, "compression.collective=" + collective}));
      for (const int world : kForecastWorlds) check_windows(config, data, world, kSteps);
    }
  }

  TEST_CASE("a selection of everything grows buffers that are planned for k entries") {
    const data::DatasetSplits data = load_data(quick_config(kImages));
    for (const auto& [sparsifier, collective] : pairs()) {
      if (sparsifier != "hard_threshold") continue;
      INFO(collective);
      const RunSpec config =
          quick_config(with(kImages, {"compression.method=hard_threshold", "compression.collective=" + collective,
                                      "compression.hard_threshold.threshold=1e-30"}));
      CHECK(sent_bytes(config, data, 3, 3)[2] > 4 * forecast_of(config, data, 3).settled.low);
    }
    const auto growth = [&](const std::string& method) {
      const RunSpec config = quick_config(with(kImages, {"compression.method=" + method}));
      const exchange::ExchangePlan plan = plan_run(config, make_network(config, *data.train), 3).exchange;
      return static_cast<double>(plan.max_bytes) / static_cast<double>(plan.buffer_bytes);
    };
    CHECK(growth("topk") == 1);
    CHECK(growth("exdyna") > 4);
  }

  TEST_CASE("a plan has the bytes of each density of the schedule, and the buffers of the densest") {
    const data::DatasetSplits data = load_data(quick_config(kImages));
    const auto plan_of = [&](const std::vector<std::string>& overrides) {
      const RunSpec config = quick_config(with(with(kImages, {"compression.method=topk"}), overrides));
      return plan_run(config, make_network(config, *data.train), 3);
    };
    const RunPlan constant = plan_of({}), dense = plan_of({"compression.density=0.25"});
    CHECK(constant.scheduled_bytes.empty());
    for (const std::vector<std::string>& schedule :
         {std::vector<std::string>{"compression.density_schedule=list",
                                   "compression.list.densities=[0.25, 1.0, 0.03, 0.25]", "train.epochs=4"},
          {"compression.density_schedule=rate", "compression.rate.densities=[1.0, 0.25]"}}) {
      const RunPlan plan = plan_of(schedule);
      CHECK(plan.exchange.cost().bytes_sent == constant.exchange.cost().bytes_sent);
      CHECK(plan.scheduled_bytes == std::vector<std::pair<double, double>>{{0.25, dense.exchange.cost().bytes_sent}});
      CHECK(plan.buffer_bytes == dense.buffer_bytes);
      CHECK(plan.memory_total() == dense.memory_total());
      CHECK(contains(describe(plan, quick_config(with(kImages, schedule)), 3), "sends more at other times: "));
    }
    CHECK(dense.buffer_bytes > constant.buffer_bytes);
    // What a threshold selects depends on no density.
    CHECK(plan_of({"compression.method=hard_threshold", "compression.density_schedule=dgc"}).scheduled_bytes.empty());
  }

  TEST_CASE("training sends what is forecast on MNIST, too") {
    const char* folder = std::getenv("DRAGONN_DATA");
    if (folder == nullptr || !std::filesystem::exists(std::filesystem::path(folder) / "mnist")) {
      MESSAGE("skipped: no MNIST in DRAGONN_DATA");
      return;
    }
    const std::vector<std::string> mnist{fmt::format("data.path={}/mnist", folder)};
    const auto config_of = [&](const std::string& method) {
      return parse_config(kMnist, "mnist.toml", with(mnist, {"compression.method=" + method}));
    };
    const data::DatasetSplits data = load_data(config_of("topk"));
    for (const char* method : {"sidco_e", "sidco_gp", "sidco_p", "exdyna", "gaussiank", "redsync", "hard_threshold",
                               "dgc", "dragonn", "oktopk"}) {
      INFO("method ", std::string(method));
      check_windows(config_of(method), data, 3, kSteps);
    }
  }
}

}  // namespace dragonn::trainer::testing
