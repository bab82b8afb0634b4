// SPDX-License-Identifier: MIT
/// Tests of what an update scheme may do besides exchanging in every step, by a scheme that exchanges rarely.
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "kernels/nn/elementwise.h"
#include "tests/trainer/quick_run.h"
#include "trainer/update/schemes/step.h"

namespace dragonn::trainer {
namespace {

using namespace dragonn::trainer::testing;

/// Every `every`-th step exchanges the sum of the gradients since the last exchange.
class Periodic final : public UpdateScheme {
 public:
  explicit Periodic(const Settings& settings) : every_(settings.integer("every")) {}

  StepOutcome step(Generation& generation, const StepValues& values) override {
    generation.compute_gradient();
    const View<const float> gradient = generation.gradient();
    if (pending_ == 0) {
      sum_ = Buffer<float>(gradient.size(), gradient.device());
      kernels::copy(gradient, sum_.view());
    } else {
      kernels::add(sum_.view(), gradient, sum_.view());
    }
    ++pending_;
    if (pending_ < every_ && !values.is_last) return {.is_exchanged = false};

    const std::uint64_t step = generation.state.progress.step;
    exchange::GradientExchange& exchange = *generation.gradient_exchange;
    StepTimers& timers = generation.sample.timers;
    const auto sums = exchange.run({.step = step,
                                    .density = values.density,
                                    .learning_rate = values.learning_rate,
                                    .gradient_scale = mean_scale(generation, sum_.view(), pending_),
                                    .accumulated = values.accumulated},
                                   sum_.view(), timers);
    const auto word = agree_on_step(generation, {.non_finite_bucket = exchange.non_finite_bucket()}, step + 1);
    exchange.commit(timers);
    apply_mean(generation, values, sums, step);
    pending_ = 0;
    return {.stop = word.stop};
  }

  bool is_synchronized() const override { return pending_ == 0; }
  void save(Archive& rank, const std::string& prefix) const override {
    if (pending_ == 0) return;
    rank.put(prefix + "pending", pending_);
    rank.put_array<float>(prefix + "sum", sum_.host());
  }
  void load(const Archive& rank, const std::string& prefix) override {
    if (!rank.contains(prefix + "pending")) return;
    pending_ = rank.get<std::int64_t>(prefix + "pending");
    const std::vector<float> sum = rank.get_vector<float>(prefix + "sum");
    sum_ = Buffer<float>(sum.size());
    std::ranges::copy(sum, sum_.host().begin());
  }

 private:
  std::int64_t every_;
  std::int64_t pending_ = 0;  // steps whose gradients are in the sum
  Buffer<float> sum_;
};

const Registration<UpdateSchemeEntry> registration{[] {
  UpdateSchemeEntry entry;
  entry.name = "periodic_test";
  entry.summary = "every few steps exchange the sum of the gradients since the last exchange";
  entry.source = "tests";
  entry.settings = {{.name = "every", .default_value = std::int64_t{2}, .help = "steps per exchange", .minimum = 1}};
  entry.make = [](const Settings& settings, ParameterArena&) { return std::make_unique<Periodic>(settings); };
  return entry;
}()};

RunSpec periodic_config(std::vector<std::string> overrides) {
  overrides.emplace_back("update.scheme=periodic_test");
  return quick_config(overrides);
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("update schemes: an exchange in every third step has the bits of three micro-batches per step") {
  for (const char* clip : {"none", "local", "global"}) {
    CAPTURE(clip);
    const std::string clipped = fmt::format("train.clip={}", clip);
    const TemporaryFolder periodic, accumulating;
    const QuickResult result =
        quick_run(periodic_config({clipped, "update.every=3", "compression.method=topk"}), 1, periodic.path());
    const QuickResult expected = quick_run(
        quick_config({clipped, "train.gradient_accumulation=3", "train.max_steps=2", "compression.method=topk"}), 1,
        accumulating.path());
    CHECK(result.parameters == expected.parameters);
  }
}

TEST_CASE("update schemes: steps without an exchange have no lines of metrics, and a run saves after them") {
  const TemporaryFolder folder;
  // The last step exchanges whatever the scheme's period.
  quick_run(periodic_config({"compression.method=dgc", "compression.overlap=true", "train.max_steps=5",
                             "checkpoint.every_steps=1", "checkpoint.keep=9"}),
            3, folder.path());
  std::istringstream lines(read_text_file(folder / "metrics.jsonl"));
  std::vector<std::uint64_t> steps;
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text);
    if (line["kind"] != "step") continue;
    CAPTURE(text);
    steps.push_back(line["step"]);
    CHECK(line.contains("density_local"));
    CHECK(line["bytes_sent"]["max"] > 0);
  }
  CHECK(steps == std::vector<std::uint64_t>{2, 4, 5});
  for (const std::uint64_t step : {1, 2, 3, 4, 5}) {
    CHECK(std::filesystem::exists(folder / "checkpoints" / CheckpointStore::folder_name(step)));
  }
  const auto summary = nlohmann::json::parse(read_text_file(folder / "summary.json"));
  CHECK(summary["warnings"].dump().find("exchanges nothing during backward") != std::string::npos);
}

TEST_CASE("update schemes: a run that resumes between exchanges has the bits of one that did not stop") {
  const std::vector<std::string> overrides{"compression.method=dgc", "checkpoint.every_steps=1", "checkpoint.keep=9"};
  const TemporaryFolder whole, resumed;
  const QuickResult expected = quick_run(periodic_config(overrides), 2, whole.path());
  const std::string checkpoint = (whole / "checkpoints" / CheckpointStore::folder_name(3)).string();
  CHECK(quick_run(periodic_config(overrides), 2, resumed.path(), checkpoint).parameters == expected.parameters);
}

TEST_SUITE_END();

}  // namespace dragonn::trainer
