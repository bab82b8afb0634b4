// SPDX-License-Identifier: MIT
/// Rounds of a given time: unlike workers, their weights, the record of a run, its replay, and resumes.
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "comm/local/local.h"
#include "core/file.h"
#include "tests/support/stop_signal.h"
#include "tests/support/text.h"
#include "tests/trainer/quick_run.h"
#include "tests/trainer/resharded.h"
#include "trainer/run/plan.h"
#include "trainer/run/signals.h"
#include "trainer/run/training.h"

namespace dragonn::trainer::testing {
namespace {

using dragonn::test::contains;
namespace fs = std::filesystem;
using Overrides = std::vector<std::string>;
using Counts = std::vector<std::uint64_t>;
using Rounds = std::vector<std::pair<std::uint64_t, Counts>>;

constexpr int kWorkers = 3;
const Overrides kTopk{"compression.method=topk", "update.median_clip=true"};

RunSpec round_config(const Overrides& others = {}) {
  Overrides overrides{"update.scheme=local", "update.inner_steps=12", "train.max_steps=30",
                      "train.epochs=99",     "optimizer.name=adamw",  "optimizer.learning_rate=0.01"};
  overrides.insert(overrides.end(), others.begin(), others.end());
  return quick_config(overrides);
}

/// Three workers' steps take 10, 15 and 20 ms of virtual time.
RunSpec timed_config(const Overrides& others = {}) {
  Overrides overrides{"network.model=alpha-beta",  "network.latency_us=10", "network.gbps=1",
                      "network.compute=zero",      "network.step_ms=10",    "network.slowest=2",
                      "update.inner_seconds=0.095"};
  overrides.insert(overrides.end(), others.begin(), others.end());
  return round_config(overrides);
}

std::string metrics_of(const fs::path& folder) {
  return (folder / "metrics.jsonl").string();
}

/// A config with the same rounds as a run had, on real time.
RunSpec replay_config(const fs::path& folder, Overrides others = {}) {
  others.push_back("update.inner_steps_from=" + metrics_of(folder));
  return round_config(others);
}

std::vector<nlohmann::json> lines_of(const fs::path& folder, const char* kind) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(metrics_of(folder));
  for (std::string text; std::getline(file, text);) {
    auto line = nlohmann::json::parse(text);
    if (line["kind"] == kind) lines.push_back(std::move(line));
  }
  return lines;
}

/// Returns the rounds of a run: the step that ends each, and the steps of the workers.
Rounds rounds_of(const fs::path& folder) {
  Rounds rounds;
  for (const auto& line : lines_of(folder, "round"))
    rounds.emplace_back(line["step"].get<std::uint64_t>(), line["inner_steps"].get<Counts>());
  return rounds;
}

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Makes steps of a rank, of which the last in a round exchanges. No rank looks for signals.
void make_steps(Generation& generation, std::uint64_t steps) {
  TrainingState& state = generation.state;
  for (; steps > 0; --steps) {
    const std::uint64_t step = state.progress.step, epoch = state.position.steps_per_epoch();
    generation.loader.seek(step / epoch, step % epoch);
    state.progress.step +=
        1 + generation.scheme->step(generation, {.learning_rate = state.learning_rate(step), .density = 0.1}).skipped;
  }
}

/// Runs body(rank, generation) on ranks at the start of a run.
void on_ranks(const RunSpec& config, int ranks, const std::function<void(std::size_t, Generation&)>& body) {
  const TemporaryFolder folder;
  const Job job{config, load_data(config), {folder.path()}, ""};
  comm::run_local(ranks, local_options(config, ranks), [&](comm::Communicator& communicator) {
    layers::Network network = make_network(config, *job.data.train);
    const RunPlan plan = plan_run(config, network, communicator.size());
    TrainingState state(config, std::move(network));
    Generation generation(job, plan, state, communicator);
    body(static_cast<std::size_t>(communicator.rank()), generation);
  });
}

/// Saves a checkpoint of ranks that have made so many steps, between two exchanges or behind one.
fs::path checkpoint_after(const RunSpec& config, const Counts& steps, const TemporaryFolder& folder) {
  const CheckpointStore store(folder.path() / "checkpoints");
  on_ranks(config, static_cast<int>(steps.size()), [&](std::size_t rank, Generation& generation) {
    make_steps(generation, steps[rank]);
    store.save(generation.communicator, generation.state.progress.step,
               [&](Archive* model, Archive& own) { generation.save(model, own, {}); });
  });
  return store.newest();
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("inner seconds: a slow worker makes fewer steps, and the rounds go on at their planned ends") {
  for (const Overrides& method : {Overrides{}, kTopk}) {
    CAPTURE(method.size());
    const TemporaryFolder timed, plain;
    const QuickResult result = quick_run(timed_config(method), kWorkers, timed.path());
    // The ninth step of 10 ms ends at 90 ms, the sixth of 15 ms too, the fourth of 20 ms at 80 ms; six steps are left.
    CHECK(rounds_of(timed.path()) == Rounds{{12, {9, 6, 4}}, {24, {9, 6, 4}}, {30, {6, 6, 4}}});
    const auto summary = nlohmann::json::parse(read_text_file(timed.path() / "summary.json"));
    CHECK(summary["steps"] == 30);
    CHECK(summary["network"]["slowest"] == 2);
    const double samples = 3 * (2 * (9 + 6 + 4) + (6 + 6 + 4)), seconds = lines_of(timed.path(), "step").back()["time"];
    CHECK(seconds == doctest::Approx(3 * 0.09).epsilon(0.01));
    CHECK(summary["throughput_samples_per_second"].get<double>() == doctest::Approx(samples / seconds).epsilon(0.001));
    CHECK(quick_run(round_config(method), kWorkers, plain.path()).parameters != result.parameters);
    CHECK(rounds_of(plain.path()).empty());
  }
}

TEST_CASE("inner seconds: a replay of the record has the bits of the run that wrote it") {
  for (const int workers : {1, 2, 3, 5, 8}) {
    for (const Overrides& method : {Overrides{}, kTopk}) {
      CAPTURE(workers);
      CAPTURE(method.size());
      const TemporaryFolder timed, replayed;
      const QuickResult expected = quick_run(timed_config(method), workers, timed.path());
      CHECK(quick_run(replay_config(timed.path(), method), workers, replayed.path()).parameters == expected.parameters);
      CHECK(rounds_of(replayed.path()) == rounds_of(timed.path()));
      CHECK(rounds_of(timed.path())[0].second.front() == 9);
    }
  }
}

TEST_CASE("inner seconds: with time enough the bits are those of rounds of steps") {
  const TemporaryFolder timed, plain, hasty;
  CHECK(quick_run(timed_config({"update.inner_seconds=9"}), kWorkers, timed.path()).parameters ==
        quick_run(round_config(), kWorkers, plain.path()).parameters);
  CHECK(rounds_of(timed.path())[0].second == Counts{12, 12, 12});
  // Every round is one step. Nothing is known before the first step of all, so another one follows.
  quick_run(timed_config({"update.inner_seconds=0.001"}), kWorkers, hasty.path());
  CHECK(rounds_of(hasty.path())[0].second == Counts{2, 2, 2});
  CHECK(rounds_of(hasty.path())[1].second == Counts{1, 1, 1});
}

TEST_CASE("inner seconds: a straggler holds the others for one of its steps, and no longer") {
  const TemporaryFolder timed, plain;
  const Overrides slow{"network.slowest=20"};  // the steps of the last worker take 200 ms
  Overrides untimed = slow;
  untimed.emplace_back("update.inner_seconds=0");
  quick_run(timed_config(slow), kWorkers, timed.path());
  quick_run(timed_config(untimed), kWorkers, plain.path());
  CHECK(rounds_of(timed.path())[1].second == Counts{9, 1, 1});
  CHECK(lines_of(timed.path(), "step").back()["time"].get<double>() ==
        doctest::Approx(0.2 * (2 + 1 + 1)).epsilon(0.01));
  CHECK(lines_of(plain.path(), "step").back()["time"].get<double>() == doctest::Approx(0.2 * 30).epsilon(0.01));
}

TEST_CASE("inner seconds: the mean weighs the workers' changes by their steps") {
  const Counts steps{3, 1};
  const TemporaryFolder folder, run;
  std::ofstream(metrics_of(folder.path())) << R"({"kind":"round","step":4,"inner_steps":[3,1]})" << '\n';
  const Overrides others{"update.inner_steps=4", "train.max_steps=4", "update.outer.learning_rate=1",
                         "update.outer.momentum=0"};
  const std::vector<float> mean = quick_run(replay_config(folder.path(), others), 2, run.path()).parameters;
  std::vector<std::vector<float>> own(2);
  std::vector<float> start;
  on_ranks(round_config(others), 2, [&](std::size_t rank, Generation& generation) {
    const std::span<const float> before = generation.state.parameters();
    if (rank == 0) start.assign(before.begin(), before.end());
    make_steps(generation, steps[rank]);
    const std::span<const float> after = generation.state.parameters();
    own[rank].assign(after.begin(), after.end());
  });
  REQUIRE(mean.size() == start.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double expected = start[i] + (3.0 * (own[0][i] - start[i]) + 1.0 * (own[1][i] - start[i])) / 4;
    CHECK(mean[i] == doctest::Approx(expected).epsilon(1e-5));
  }
}

TEST_CASE(
    "inner seconds: a run that resumes at an exchange, or within a round, has the bits of one that did not stop") {
  for (const Overrides& method : {Overrides{}, kTopk}) {
    CAPTURE(method.size());
    Overrides overrides{"checkpoint.every_steps=5", "checkpoint.keep=9"};
    overrides.insert(overrides.end(), method.begin(), method.end());
    const RunSpec config = timed_config(overrides);
    const TemporaryFolder whole, resumed;
    const QuickResult expected = quick_run(config, kWorkers, whole.path());
    const CheckpointStore store(whole.path() / "checkpoints");
    REQUIRE(store.list().size() == 3);  // what is due within a round comes at its end
    CHECK(quick_run(config, kWorkers, resumed.path(), store.list()[0].string()).parameters == expected.parameters);
    CHECK(rounds_of(resumed.path()) == Rounds{{24, {9, 6, 4}}, {30, {6, 6, 4}}});
    // In the first round after a step, at unlike places, and before the exchange; in the second one behind it.
    for (const Counts& steps : {Counts{1, 1, 1}, {2, 5, 1}, {8, 5, 3}, {9 + 3, 6 + 5, 4 + 1}}) {
      CAPTURE(steps[0]);
      const TemporaryFolder stopped, again;
      const fs::path checkpoint = checkpoint_after(config, steps, stopped);
      CHECK(quick_run(config, kWorkers, again.path(), checkpoint.string()).parameters == expected.parameters);
      const Rounds rounds = rounds_of(again.path());
      CHECK(rounds.back() == std::pair<std::uint64_t, Counts>{30, {6, 6, 4}});
      CHECK(rounds.size() == (steps[0] < 9 ? 3 : 2));
      CHECK(rounds.front().second == Counts{9, 6, 4});
    }
  }
}

TEST_CASE("inner seconds: a signal stops the run within a round, and it goes on to the same bits") {
  const RunSpec config = timed_config();
  for (const int workers : {1, 3, 8}) {
    CAPTURE(workers);
    const TemporaryFolder whole, stopped;
    const QuickResult expected = quick_run(config, workers, whole.path());
    receive_stop_signal();
    CHECK(quick_run(config, workers, stopped.path()).exit_code == kExitRequeue);
    StopSignals::install();
    const fs::path checkpoint = CheckpointStore(stopped.path() / "checkpoints").newest();
    CHECK(CheckpointStore::read_rank(checkpoint, 0).get<std::uint64_t>("update/round/made") == 1);
    CHECK(quick_run(config, workers, stopped.path(), checkpoint.string()).parameters == expected.parameters);
    CHECK(rounds_of(stopped.path()) == rounds_of(whole.path()));
  }
}

TEST_CASE("inner seconds: a run that goes on makes the rounds again that it had made, whatever the clock says") {
  const TemporaryFolder whole, other;
  const RunSpec config = timed_config({"checkpoint.every_steps=12", "checkpoint.keep=9"});
  const QuickResult expected = quick_run(config, kWorkers, whole.path());
  const Rounds rounds = rounds_of(whole.path());
  const std::string first = CheckpointStore(whole.path() / "checkpoints").list()[0].string();
  const RunSpec slower = timed_config({"network.step_ms=30"});
  CHECK(quick_run(slower, kWorkers, other.path(), first).parameters != expected.parameters);
  CHECK(rounds_of(other.path())[0].second == Counts{3, 2, 2});
  CHECK(quick_run(slower, kWorkers, whole.path(), first).parameters == expected.parameters);
  CHECK(rounds_of(whole.path()) == rounds);
}

TEST_CASE(
    "inner seconds: within a round rank r of another number of workers goes on from rank r modulo the former one") {
  const TemporaryFolder folder;
  const RunSpec config = timed_config(kTopk);
  const Counts made{2, 5, 1};
  const fs::path checkpoint = checkpoint_after(config, made, folder);
  for (const int others : {1, 2, 5, 8}) {
    CAPTURE(others);
    on_resharded(config, others, checkpoint, [&](std::size_t rank, Generation& generation) {
      Archive own;
      generation.scheme->save(own, "");
      if (own.get<std::uint64_t>("round/made") != made[rank % kWorkers] || generation.state.progress.step != made[0])
        throw Error("another place in the round");
    });
    const TemporaryFolder resumed, replayed;
    const QuickResult expected = quick_run(config, others, resumed.path(), checkpoint.string());
    const Rounds rounds = rounds_of(resumed.path());
    CHECK(rounds[0].second.size() == static_cast<std::size_t>(others));
    CHECK(quick_run(replay_config(resumed.path(), kTopk), others, replayed.path(), checkpoint.string()).parameters ==
          expected.parameters);
    CHECK(rounds_of(replayed.path()) == rounds);
  }
}

TEST_CASE("inner seconds: what cannot be right is refused in one line") {
  const TemporaryFolder folder;
  CHECK(timed_config().update.describe_period() == ", one exchange in at most 12 steps");
  CHECK(error_of([] { timed_config({"update.average=senders"}); }) ==
        "quick.toml: update.inner_seconds and update.inner_steps_from let workers leave out steps and weigh workers by "
        "those that they made, and update.average = \"senders\" counts them equally: expected \"ranks\"");
  for (const char* other : {"update.fragments=2", "update.overlap_steps=1"})
    CHECK(error_of([&] { timed_config({other}); }) ==
          "quick.toml: update.inner_seconds and update.inner_steps_from let workers leave out steps, and "
          "update.fragments and update.overlap_steps exchange after fixed numbers of them: expected fragments = 1 and "
          "overlap_steps = 0");
  CHECK(contains(error_of([] { round_config({"network.slowest=2"}); }), "expected network.step_ms above 0"));
  CHECK(contains(error_of([] { timed_config({"logging.trace=2"}); }), "expected logging.trace = 0"));
  CHECK(contains(error_of([] { timed_config({"logging.dump_gradients=[3]"}); }), "and no dump_gradients"));
  const auto refused = [&](const std::string& text) {
    std::ofstream(metrics_of(folder.path())) << text << '\n';
    return error_of([&] {
      const TemporaryFolder run;
      quick_run(replay_config(folder.path(), {"train.max_steps=12"}), 2, run.path());
    });
  };
  CHECK(contains(refused("{}"), "it has no line of kind \"round\""));
  CHECK(contains(refused(R"({"kind":"round","step":12})"), "metrics.jsonl:1: expected a step and the inner_steps"));
  CHECK(contains(refused("{}\n"
                         R"({"kind":"round","step":12,"inner_steps":[1,0]})"),
                 "metrics.jsonl:2: expected"));
  CHECK(contains(refused(R"({"kind":"round","step":12,"inner_steps":[1]})"), "is of 1 workers: expected 2"));
  CHECK(contains(refused(R"({"kind":"round","step":7,"inner_steps":[1,2]})"), "no round that ends after step 12"));
  CHECK(refused(R"({"kind":"round","step":12,"inner_steps":[1,2]})").empty());
}

TEST_CASE("inner seconds: a model that carries state from batch to batch is refused") {
  const TemporaryFolder folder;
  for (const char* name : {"train.txt", "valid.txt"}) std::ofstream(folder.path() / name) << std::string(400, 'a');
  const RunSpec config = parse_config(
      std::string(kQuickText) + "path = \"" + folder.path().string() + "\"\n[train]\nepochs = 1\nbatch_size = 3\n",
      "text.toml", Overrides{"update.scheme=local", "update.inner_seconds=1"});
  const data::DatasetSplits data = load_data(config);
  CHECK(contains(error_of([&] { plan_run(config, make_network(config, *data.train), 2); }),
                 "model \"lstm_lm\" carries its state from each batch to the next"));
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
