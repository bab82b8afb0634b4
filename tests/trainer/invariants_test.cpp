// SPDX-License-Identifier: MIT
/// Invariants 2 to 5 over whole runs: replicas stay equal, same seed same run, density 1 is dense, resume is invisible.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/file.h"
#include "tests/exchange/combinations.h"
#include "tests/trainer/quick_run.h"

namespace dragonn::trainer::testing {
namespace {

using namespace exchange::testing;

std::vector<std::string> overrides_of(const Combination& combination) {
  return {"compression.method=" + combination.method(), "compression.collective=" + combination.collective,
          "compression.memory=" + combination.memory, "train.replica_check_every=1"};
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    norm += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("replicas stay equal and the same seed gives the same bits, for every pair of parts and world size") {
  for (const Combination& combination : pairwise_combinations()) {
    for (int world_size : kWorlds) {
      CAPTURE(combination.name());
      CAPTURE(world_size);
      const RunSpec config = quick_config(overrides_of(combination));
      const TemporaryFolder first, second;
      const QuickResult a = quick_run(config, world_size, first.path());  // compares all replicas at every step
      const QuickResult b = quick_run(config, world_size, second.path());
      CHECK(a.exit_code == 0);
      CHECK(a.parameters == b.parameters);
    }
  }
}

TEST_CASE("another seed gives another run") {
  const TemporaryFolder first, second;
  const QuickResult a = quick_run(quick_config({"compression.method=topk"}), 2, first.path());
  const QuickResult b = quick_run(quick_config({"compression.method=topk", "seed=8"}), 2, second.path());
  CHECK(a.parameters != b.parameters);
}

TEST_CASE("resume is invisible after any step, for every pair of parts") {
  for (const Combination& combination : pairwise_combinations()) {
    for (int world_size : kResumeWorlds) {
      CAPTURE(combination.name());
      CAPTURE(world_size);
      std::vector<std::string> overrides = overrides_of(combination);
      overrides.insert(overrides.end(), {"checkpoint.every_steps=1", "checkpoint.keep=100"});
      const RunSpec config = quick_config(overrides);
      const TemporaryFolder whole;
      const QuickResult uninterrupted = quick_run(config, world_size, whole.path());
      for (std::uint64_t step = 1; step < 6; step += kResumeStride) {
        CAPTURE(step);
        const TemporaryFolder rest;
        const auto checkpoint = whole.path() / "checkpoints" / CheckpointStore::folder_name(step);
        const QuickResult resumed = quick_run(config, world_size, rest.path(), checkpoint.string());
        CHECK(resumed.parameters == uninterrupted.parameters);
      }
    }
  }
}

TEST_CASE("resume is invisible for every optimizer, on dense and on sparse gradients") {
  for (const std::string& optimizer : Registry<optim::OptimizerEntry>::instance().names()) {
    for (const std::string method : {"dense", "topk"}) {
      CAPTURE(optimizer);
      CAPTURE(method);
      const RunSpec config = quick_config({"optimizer.name=" + optimizer, "compression.method=" + method,
                                           "checkpoint.every_steps=1", "checkpoint.keep=100"});
      const TemporaryFolder whole, rest;
      const QuickResult uninterrupted = quick_run(config, 2, whole.path());
      const auto checkpoint = whole.path() / "checkpoints" / CheckpointStore::folder_name(3);
      CHECK(quick_run(config, 2, rest.path(), checkpoint.string()).parameters == uninterrupted.parameters);
    }
  }
}

TEST_CASE("a resumed run drops the metrics behind its checkpoint and goes on") {
  const RunSpec config = quick_config({"checkpoint.every_steps=2", "checkpoint.keep=100"});
  const TemporaryFolder folder;
  quick_run(config, 2, folder.path());
  std::filesystem::remove_all(folder.path() / "checkpoints" / CheckpointStore::folder_name(6));
  quick_run(config, 2, folder.path(), "auto");  // from step 4
  const std::string text = read_text_file(folder.path() / "metrics.jsonl");
  for (int step = 1; step <= 6; ++step) {
    const std::string line = fmt::format("\"kind\":\"step\",\"step\":{},", step);
    const auto first = text.find(line);
    CHECK(first != std::string::npos);
    CHECK(text.find(line, first + 1) == std::string::npos);
  }
}

TEST_CASE("the last checkpoints are kept, and that of the best evaluation") {
  // 16 steps per epoch; evaluations at steps 16, 32, 48 of which the best need not be one of the last two checkpoints.
  const RunSpec config = quick_config({"train.epochs=3", "train.max_steps=0", "train.eval_every_epochs=1",
                                       "checkpoint.every_steps=5", "checkpoint.keep=2", "optimizer.learning_rate=0.3"});
  const TemporaryFolder folder;
  quick_run(config, 2, folder.path());
  const auto all = CheckpointStore(folder.path() / "checkpoints").list();
  const Archive last = CheckpointStore::read_model(all.back());
  const auto best =
      folder.path() / "checkpoints" / CheckpointStore::folder_name(last.get<std::uint64_t>("progress/best/step"));
  CHECK(last.get<std::uint64_t>("progress/step") == 48);
  CHECK(std::filesystem::exists(best / "DONE"));
  CHECK(all.size() <= 3);
}

TEST_CASE("gradient accumulation over micro-batches equals one large batch to rounding") {
  const TemporaryFolder first, second;
  const QuickResult one = quick_run(quick_config({"train.batch_size=4"}), 2, first.path());
  const QuickResult two =
      quick_run(quick_config({"train.batch_size=2", "train.gradient_accumulation=2"}), 2, second.path());
  CHECK(relative_difference(two.parameters, one.parameters) < 1e-5);  // float32 sums in another order, six steps
}

TEST_CASE("a run stops masking where its learning rate has fallen below masking_rate") {
  const auto parameters = [](double masking_rate, std::vector<std::string> overrides) {
    const TemporaryFolder folder;
    overrides.insert(overrides.end(),
                     {"compression.method=topk", "compression.memory=momentum_correction", "schedule.name=milestones",
                      "schedule.milestones=[1]", "schedule.gamma=0.5", "data.train_samples=18",
                      fmt::format("compression.momentum_correction.masking_rate={}", masking_rate)});
    return quick_run(quick_config(overrides), 2, folder.path()).parameters;  // 3 steps in each of two epochs
  };
  CHECK(parameters(0.6, {"train.max_steps=3"}) == parameters(0, {"train.max_steps=3"}));
  const std::vector<float> always = parameters(0, {});
  CHECK(parameters(0.5, {}) == always);
  CHECK(parameters(0.6, {}) != always);
}

TEST_CASE("a density that falls with the learning rate is that of a list by epochs where the rate falls after epochs") {
  const auto parameters = [](std::vector<std::string> overrides) {
    const TemporaryFolder folder;
    overrides.insert(overrides.end(),
                     {"compression.method=topk", "schedule.name=milestones", "schedule.milestones=[1, 2]",
                      "schedule.gamma=0.2", "train.epochs=3", "data.train_samples=18"});
    return quick_run(quick_config(overrides), 2, folder.path()).parameters;  // 3 steps in each of three epochs
  };
  const std::vector<float> by_rate =
      parameters({"compression.density_schedule=rate", "compression.rate.densities=[0.9, 0.5]"});
  CHECK(by_rate == parameters({"compression.density_schedule=list", "compression.list.densities=[0.9, 0.5]"}));
  CHECK(by_rate != parameters({"compression.density_schedule=list", "compression.list.densities=[0.9, 0.9]"}));
}

TEST_CASE("the folded accumulator equals the raw one for plain SGD with a constant rate, to rounding") {
  for (const char* memory : {"residual", "none"}) {
    const std::vector<std::string> common{"compression.method=topk", "optimizer.momentum=0.0", "schedule.name=constant",
                                          fmt::format("compression.memory={}", memory)};
    std::vector<std::string> folded = common;
    folded.push_back("compression.acc_form=folded");
    const TemporaryFolder first, second;
    const QuickResult raw = quick_run(quick_config(common), 3, first.path());
    const QuickResult other = quick_run(quick_config(folded), 3, second.path());
    CHECK(relative_difference(other.parameters, raw.parameters) < 1e-5);
  }
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
