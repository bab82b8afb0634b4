// SPDX-License-Identifier: MIT
/// Early stopping: when a run ends because its evaluations have not improved.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "tests/trainer/quick_run.h"
#include "trainer/metrics/metrics.h"

namespace dragonn::trainer {
namespace {

using testing::quick_config;
using testing::quick_run;
using testing::TemporaryFolder;

/// The end of a run, from its summary.
struct End {
  std::uint64_t steps;
  std::string ended_by;
  std::uint64_t best_step;
  bool operator==(const End&) const = default;
};

constexpr std::uint64_t kStepsPerEpoch = 16;  // on two workers

/// Runs two workers that never improve on their first evaluation, unless `overrides` have a learning rate.
End run(const std::filesystem::path& folder, std::vector<std::string> overrides, const std::string& resume = "") {
  overrides.insert(overrides.begin(), {"optimizer.learning_rate=0", "train.epochs=6", "train.max_steps=0",
                                       "train.eval_every_epochs=1", "checkpoint.every_epochs=1"});
  quick_run(quick_config(overrides), 2, folder, resume);
  const auto summary = nlohmann::json::parse(read_text_file(folder / "summary.json"));
  return {summary.at("steps"), summary.at("ended_by"), summary.at("best").at("test").at("step")};
}

TEST_SUITE("trainer") {
  TEST_CASE("a run ends when as many evaluations as train.patience have not improved on the best one") {
    const TemporaryFolder folder;
    CHECK(run(folder / "0", {}) == End{6 * kStepsPerEpoch, "epochs", kStepsPerEpoch});
    CHECK(run(folder / "1", {"train.patience=1"}) == End{2 * kStepsPerEpoch, "patience", kStepsPerEpoch});
    CHECK(run(folder / "3", {"train.patience=3"}) == End{4 * kStepsPerEpoch, "patience", kStepsPerEpoch});
    CHECK(run(folder / "2", {"train.patience=2", "train.eval_every_epochs=2"}) ==
          End{6 * kStepsPerEpoch, "epochs", 2 * kStepsPerEpoch});
    CHECK(run(folder / "limit", {"train.patience=3", "train.max_steps=20"}) == End{20, "max_steps", kStepsPerEpoch});
    // The checkpoint of the end is there, as after any end.
    CHECK(std::filesystem::exists(folder / "3" / "checkpoints" / CheckpointStore::folder_name(4 * kStepsPerEpoch)));
  }

  TEST_CASE("a run that improves goes on, to the same bits") {
    const TemporaryFolder folder;
    const std::vector<std::string> learns{"optimizer.learning_rate=0.05", "train.max_steps=40", "train.epochs=6",
                                          "train.eval_every_epochs=1"};
    std::vector<std::string> patient = learns;
    patient.emplace_back("train.patience=6");
    CHECK(quick_run(quick_config(learns), 2, folder / "without").parameters ==
          quick_run(quick_config(patient), 2, folder / "with").parameters);
  }

  TEST_CASE("a resumed run ends at the same step as one without an interruption") {
    for (const char* interrupted_at : {"16", "32", "40"}) {
      CAPTURE(interrupted_at);
      const TemporaryFolder folder;
      const std::filesystem::path path = folder / "run";
      run(path, {"train.patience=2", fmt::format("train.max_steps={}", interrupted_at)});
      const End end{3 * kStepsPerEpoch, "patience", kStepsPerEpoch};
      CHECK(run(path, {"train.patience=2"}, "auto") == end);
      CHECK(run(path, {"train.patience=2"}, "auto") == end);  // it has ended
      CHECK(run(path, {"train.patience=4"}, "auto") == End{5 * kStepsPerEpoch, "patience", kStepsPerEpoch});
    }
  }

  TEST_CASE("the direction of an improvement is the metric's, and any number is better than none") {
    const auto eval = [](const char* metric, double value) { return EvalRecord{.qualities = {{metric, value}}}; };
    CHECK(is_better(eval("accuracy", 0.6), eval("accuracy", 0.5)));
    CHECK_FALSE(is_better(eval("accuracy", 0.5), eval("accuracy", 0.5)));
    CHECK(is_better(eval("perplexity", 90), eval("perplexity", 100)));
    CHECK(is_better(eval("word_error_rate", 0.1), eval("word_error_rate", 0.2)));
    const double none = std::nan("");
    CHECK(is_better(eval("perplexity", 90), eval("perplexity", none)));
    CHECK_FALSE(is_better(eval("perplexity", none), eval("perplexity", none)));
    CHECK_FALSE(is_better(eval("perplexity", none), eval("perplexity", 90)));
  }

  TEST_CASE("train.patience needs evaluations") {
    CHECK_THROWS_WITH_AS(
        quick_config({"train.patience=2"}),
        "quick.toml: train.patience = 2 counts evaluations, and train.eval_every_epochs = 0 makes none before the end: "
        "expected train.eval_every_epochs of at least 1, or train.patience = 0",
        ConfigError);
    CHECK_THROWS_AS(quick_config({"train.patience=-1"}), ConfigError);
  }
}

}  // namespace
}  // namespace dragonn::trainer
