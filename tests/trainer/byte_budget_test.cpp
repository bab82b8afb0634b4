// SPDX-License-Identifier: MIT
#include "trainer/run/byte_budget.h"

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "comm/agreement.h"
#include "core/file.h"
#include "tests/trainer/quick_run.h"
#include "trainer/config/exchange_config.h"
#include "trainer/run/generation.h"
#include "trainer/run/plan.h"

namespace dragonn::trainer::testing {
namespace {

/// Four epochs, of 8 steps with 4 workers, at a rate that other keys let fall.
RunSpec budget_config(const std::vector<std::string>& overrides = {}) {
  return quick_config(
      with({"compression.method=topk", "compression.include_vectors=yes", "compression.density=0.02",
            "compression.density_schedule=rate", "compression.rate.densities=[0.9, 0.05]",
            "compression.rate.bytes_share=0.2", "train.epochs=4", "train.max_steps=0", "model.hidden=[64, 64]"},
           overrides));
}

/// The last two epochs have a tenth of the rate.
const std::vector<std::string> kTwoRates{"schedule.name=milestones", "schedule.milestones=[2]"};

RunSpec two_rates(const std::vector<std::string>& overrides = {}) {
  return budget_config(with(kTwoRates, overrides));
}

ByteBudget budget_of(const RunSpec& config, int workers) {
  const data::DatasetSplits data = load_data(config);
  const std::uint64_t steps = steps_per_epoch(config, *data.train, workers);
  return byte_budget(config, make_network(config, *data.train), steps, given_nodes(config, workers)).value();
}

/// The density and the bytes of the steps of a run.
struct Steps {
  std::vector<double> densities;
  double bytes = 0;  // that a worker sends, mean over steps
};

Steps run(const RunSpec& config, int workers) {
  const TemporaryFolder folder;
  quick_run(config, workers, folder.path());
  Steps steps;
  std::ifstream lines(folder / "metrics.jsonl");
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text);
    if (line["kind"] != "step") continue;
    steps.densities.push_back(line["density_target"].get<double>());
    steps.bytes = line["bytes_per_step"].get<double>();
  }
  return steps;
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("a run spends its budget of bytes while the learning rate is high") {
    for (const int workers : {2, 4, 5}) {
      for (const std::vector<std::string>& more :
           {std::vector<std::string>{"schedule.name=cosine"},
            {"schedule.name=constant"},
            with(kTwoRates, {"compression.method=topk"}),
            with(kTwoRates, {"compression.method=gtopk"}),
            with(kTwoRates, {"compression.collective=dsa", "compression.rate.bytes_share=0.25"}),
            with(kTwoRates, {"train.max_steps=20"}),
            with(kTwoRates, {"update.scheme=local", "update.inner_steps=3", "compression.memory=residual"})}) {
        INFO(workers, " workers, ", fmt::format("{}", fmt::join(more, " ")));
        const RunSpec config = budget_config(more);
        const ByteBudget budget = budget_of(config, workers);
        const double share = bytes_share(config.compression);
        CHECK(budget.bytes <= share * budget.dense_bytes);
        CHECK(budget.bytes >= 0.97 * share * budget.dense_bytes);
        const Steps steps = run(config, workers);
        CHECK(steps.densities.front() == budget.first_density);
        CHECK(steps.bytes * static_cast<double>(config.update.steps_per_exchange()) ==
              doctest::Approx(budget.bytes).epsilon(0.1));
      }
    }
  }

  TEST_CASE("a budget replaces the first density alone") {
    const Steps steps = run(two_rates(), 4);
    REQUIRE(steps.densities.size() == 32);
    for (std::size_t step = 0; step < 32; ++step)
      CHECK(steps.densities[step] == (step < 16 ? steps.densities[0] : 0.05));
    CHECK(steps.densities[0] != 0.9);
    // None is set: those below a third of the rate have the target.
    const Steps alone = run(two_rates({"compression.rate.densities=[]"}), 4);
    CHECK(alone.densities[0] > steps.densities[0]);
    CHECK(alone.densities[16] == 0.02);
  }

  TEST_CASE("a run with a budget goes on from its checkpoint without a warning") {
    const RunSpec config = two_rates({"checkpoint.every_steps=8", "checkpoint.keep=9"});
    const TemporaryFolder folder, resumed;
    quick_run(config, 3, folder.path());
    const auto first = CheckpointStore(RunFolder{folder.path()}.checkpoints()).list().front();
    quick_run(config, 3, resumed.path(), first.string());
    const auto summary = nlohmann::json::parse(read_text_file(resumed.path() / "summary.json"));
    CHECK(summary["warnings"].empty());
  }

  TEST_CASE("a budget that is not spent ends at density 0.99, and one that does not suffice is refused") {
    CHECK(budget_of(two_rates({"compression.rate.bytes_share=1", "compression.codec.values=int4"}), 2).first_density ==
          0.99);
    const RunSpec poor = two_rates({"compression.rate.bytes_share=0.01"});
    const ByteBudget budget = budget_of(poor, 4);
    CHECK(budget.first_density == 0.02);
    CHECK_THROWS_WITH_AS(
        check(budget, poor),
        doctest::Contains("compression.rate.bytes_share = 0.01: a run that begins at compression.density "
                          "sends 0.1"),
        ConfigError);
    CHECK_THROWS_WITH_AS(two_rates({"compression.method=hard_threshold"}),
                         doctest::Contains("\"hard_threshold\" selects what it selects"), ConfigError);
    const TemporaryFolder folder;
    CHECK_THROWS_AS(quick_run(poor, 3, folder.path()), comm::CollectiveError);
    CHECK(std::filesystem::is_empty(folder.path()));
  }

  TEST_CASE("what sends no selections, or to nobody, has no budget") {
    CHECK(run(two_rates(), 1).densities.front() == 0.9);
    CHECK(bytes_share(two_rates({"compression.method=dense"}).compression) == 0);
    CHECK(bytes_share(two_rates({"compression.rate.bytes_share=0"}).compression) == 0);
    CHECK(bytes_share(two_rates({"compression.density_schedule=dgc"}).compression) == 0);
  }

  TEST_CASE("a budget needs a training run") {
    const std::string text =
        "[compression]\nmethod = \"topk\"\ndensity_schedule = \"rate\"\n[compression.rate]\nbytes_share = 0.1\n";
    CHECK_THROWS_WITH_AS(parse_exchange_config(text, "hook.toml"), doctest::Contains("compression.rate.bytes_share"),
                         ConfigError);
  }
}

}  // namespace dragonn::trainer::testing
