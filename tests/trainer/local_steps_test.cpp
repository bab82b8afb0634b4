// SPDX-License-Identifier: MIT
/// Local steps: published vectors, agreement with synchronous training, resumes, and what belongs to gradients alone.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "comm/agreement.h"
#include "comm/local/local.h"
#include "core/file.h"
#include "core/units_text.h"
#include "optim/optimizer.h"
#include "tests/exchange/combinations.h"
#include "tests/support/stop_signal.h"
#include "tests/support/text.h"
#include "tests/trainer/quick_run.h"
#include "tests/trainer/resharded.h"
#include "trainer/metrics/metrics.h"
#include "trainer/run/plan.h"
#include "trainer/run/signals.h"
#include "trainer/run/training.h"
#include "trainer/update/schemes/outer_parameters.h"

namespace dragonn::trainer::testing {
namespace {

using dragonn::test::contains;

namespace fs = std::filesystem;
using Overrides = std::vector<std::string>;

RunSpec local_config(std::int64_t inner_steps, Overrides overrides = {}) {
  overrides.insert(overrides.begin(), {"update.scheme=local", fmt::format("update.inner_steps={}", inner_steps)});
  return quick_config(overrides);
}

fs::path checkpoint_of(const TemporaryFolder& folder, std::uint64_t step) {
  return folder.path() / "checkpoints" / CheckpointStore::folder_name(step);
}

OuterParameters::MakeOptimizer sgd(double momentum) {
  return [momentum](ParameterArena& arena) {
    const optim::OptimizerEntry& entry = Registry<optim::OptimizerEntry>::instance().at("sgd");
    Settings settings(entry.settings);
    settings.set("weight_decay", 0.0);
    settings.set("momentum", momentum);
    settings.set("nesterov", momentum > 0);
    return entry.make(settings, arena);
  };
}

/// Returns a parameter of one element after each of `rounds` rounds of two equal ranks: 1 at first, and moved by -2 in
/// each of six inner steps.
std::vector<float> after_rounds(int rounds, double outer_rate, double momentum) {
  constexpr int kInnerSteps = 6, kRanks = 2;
  ParameterArena arena;
  arena.declare("w", {1, 1}, ParameterRole::kWeight);
  arena.allocate();
  float& parameter = arena.values().host()[0];
  parameter = 1;
  OuterParameters outer(arena, sgd(momentum));
  outer.keep();
  std::vector<float> values;
  for (int round = 0; round < rounds; ++round) {
    for (int step = 0; step < kInnerSteps; ++step) parameter -= 2;
    const std::vector<float> sum{kRanks * outer.take_change(arena.layout()).host()[0]};
    const exchange::BucketSum exchanged{.size = 1, .divisor = kRanks, .dense = View<const float>(std::span(sum))};
    outer.step(std::span(&exchanged, 1), outer_rate, static_cast<std::uint64_t>(round));
    outer.give(arena.layout(), 0);
    values.push_back(parameter);
  }
  return values;
}

/// One rank of a tiny model whose changes are exchanged.
struct OuterRank {
  OuterRank(const exchange::ExchangeRules& rules, comm::Communicator& communicator)
      : exchange(rules, arena, communicator), outer(arena, sgd(0)) {}

  /// Moves the parameters away from the common ones by `change`, and exchanges that.
  auto exchange_change(const std::vector<float>& change, double density) {
    outer.keep();
    for (std::size_t i = 0; i < change.size(); ++i) arena.values().host()[i] -= change[i];
    return exchange.run({.density = density}, outer.take_change(arena.layout()), timers);
  }

  static ParameterArena make_arena() {
    ParameterArena arena;
    arena.declare("w", {2, 2}, ParameterRole::kWeight);
    arena.allocate();
    return arena;
  }

  ParameterArena arena = make_arena();
  exchange::GradientExchange exchange;
  OuterParameters outer;
  StepTimers timers;
};

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

std::uint64_t messages_sent(const comm::Communicator& communicator) {
  std::uint64_t sum = 0;
  for (const comm::Traffic& traffic : communicator.traffic().by_phase()) sum += traffic.messages_sent;
  return sum;
}

std::string error_of(const Overrides& overrides) {
  try {
    local_config(3, overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("local steps: the outer step has torchft's values, and those of Nesterov's momentum") {
  // torchft's fixture, its layer that is synchronized at steps 6 and 12.
  CHECK(after_rounds(2, 2, 0) == std::vector<float>{-23, -47});
  // Change 12: b = 12, then 12 / 2 + 12; each step moves by change + b / 2.
  CHECK(after_rounds(2, 1, 0.5) == std::vector<float>{-17, -38});
}

TEST_CASE("local steps: one inner step of SGD and one outer step of SGD are a step of synchronous SGD") {
  for (const int world_size : {1, 3}) {
    CAPTURE(world_size);
    const auto run = [&](const RunSpec& config) {
      const TemporaryFolder folder;
      return quick_run(config, world_size, folder.path()).parameters;
    };
    const std::vector<float> expected = run(quick_config({"optimizer.momentum=0"}));
    for (const auto& [inner, outer] : {std::pair("1.0", "0.05"), std::pair("0.05", "1.0")}) {
      const std::vector<float> parameters =
          run(local_config(1, {"optimizer.momentum=0", fmt::format("optimizer.learning_rate={}", inner),
                               fmt::format("update.outer.learning_rate={}", outer), "update.outer.momentum=0"}));
      // Each of six steps rounds a parameter, below 1, and the change.
      CHECK(largest_difference(parameters, expected) < 6 * 2 * 6e-8f);
    }
  }
}

TEST_CASE("local steps: density 1 has the bits of dense exchanges") {
  const auto run = [](Overrides overrides) {
    const TemporaryFolder folder;
    return quick_run(local_config(2, std::move(overrides)), 2, folder.path()).parameters;
  };
  CHECK(run({"compression.method=topk", "compression.density=1"}) == run({}));
  CHECK(run({"compression.method=topk"}) != run({}));
}

TEST_CASE("local steps: inner steps send no message, and the ranks hold the same parameters after an exchange") {
  const RunSpec config = local_config(3, {"compression.method=topk"});
  const TemporaryFolder folder;
  const Job job{config, load_data(config), {folder.path()}, ""};
  std::vector<std::vector<float>> parameters(2);
  comm::run_local(2, local_options(config, 2), [&](comm::Communicator& communicator) {
    layers::Network network = make_network(config, *job.data.train);
    const RunPlan plan = plan_run(config, network, communicator.size());
    TrainingState state(config, std::move(network));
    Training training(job, plan, state, communicator);
    Generation& generation = training.generation();
    generation.loader.seek(0, 0);
    for (std::uint64_t step = 1; step <= 7; ++step) {
      const std::uint64_t before = messages_sent(communicator);
      const bool is_last = step == 7;
      const StepOutcome outcome = generation.scheme->step(
          generation, {.learning_rate = 0.05, .density = config.compression.density, .is_last = is_last});
      ++state.progress.step;
      const bool exchanges = step % 3 == 0 || is_last;
      if (outcome.is_exchanged != exchanges || generation.scheme->is_synchronized() != exchanges)
        throw Error("the third step, the sixth and the last exchange");
      if ((messages_sent(communicator) > before) != exchanges) throw Error("other steps send no message");
    }
    const std::span<const float> mine = state.parameters();
    parameters[static_cast<std::size_t>(communicator.rank())].assign(mine.begin(), mine.end());
  });
  CHECK(parameters[0] == parameters[1]);
}

TEST_CASE("local steps: lines of metrics and evaluations wait for the next exchange, and checkpoints do not") {
  const TemporaryFolder folder;
  const RunSpec config = local_config(3, {"checkpoint.every_steps=2", "checkpoint.keep=9", "train.eval_every_epochs=1",
                                          "train.max_steps=0", "data.train_samples=30", "train.epochs=2"});
  quick_run(config, 2, folder.path());  // 5 steps in an epoch
  for (std::uint64_t step = 1; step <= 10; ++step) CHECK(fs::exists(checkpoint_of(folder, step)) == (step % 2 == 0));
  std::ifstream lines(folder.path() / "metrics.jsonl");
  std::vector<std::string> kinds;
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text);
    kinds.push_back(fmt::format("{} {}", line["kind"].get<std::string>(), line["step"].get<int>()));
    if (line["kind"] != "step") continue;
    const double exchanges = std::ceil(line["step"].get<double>() / 3);
    const double bytes = line["bytes_sent"]["mean"].get<double>();
    CHECK(line["bytes_per_step"].get<double>() == doctest::Approx(bytes * exchanges / line["step"].get<double>()));
  }
  CHECK(kinds == std::vector<std::string>{"step 3", "step 6", "eval 6", "step 9", "step 10", "eval 10"});
  const auto summary = nlohmann::json::parse(read_text_file(folder / "summary.json"));
  CHECK(summary["density_mean"] == 1);
  const RunPlan plan = plan_run(config, make_network(config), 2);
  CHECK(summary["predicted_bytes_per_step"]["expected"].get<double>() ==
        doctest::Approx(plan.exchange.cost().bytes_sent / 3));
  CHECK(contains(describe(plan, config, 2), "one exchange in 3 steps: "));
  CHECK(contains(describe(plan, config, 2), "update scheme"));
  // Three steps of 100 ms, and 300 / 19 ms of exchange.
  const double gbps = plan.exchange.cost().chain().bytes * 8e-9 / (0.3 / 19);
  CHECK(contains(describe(plan, config, 2), fmt::format("takes 5 % of a round at {} (", bandwidth_text(gbps))));
}

TEST_CASE("local steps: a resumed run has the bits of one that did not stop, on every rank") {
  for (const int world_size : {1, 2, 3, 5, 8}) {
    for (const char* method : {"dense", "topk"}) {
      CAPTURE(world_size);
      CAPTURE(method);
      const auto config = [&](std::uint64_t steps) {
        return local_config(2,
                            {"optimizer.name=adamw", "optimizer.learning_rate=0.01", "update.outer.momentum=0.5",
                             fmt::format("compression.method={}", method), fmt::format("train.max_steps={}", steps)});
      };
      const TemporaryFolder whole, first, second;
      const QuickResult expected = quick_run(config(8), world_size, whole.path());
      quick_run(config(4), world_size, first.path());
      const std::string checkpoint = checkpoint_of(first, 4).string();
      CHECK(quick_run(config(8), world_size, second.path(), checkpoint).parameters == expected.parameters);
      for (int rank = 0; rank < world_size; ++rank) {
        const Archive went_on = CheckpointStore::read_rank(checkpoint_of(second, 8), rank);
        const Archive ran_through = CheckpointStore::read_rank(checkpoint_of(whole, 8), rank);
        for (const char* field : {"optimizer/first", "optimizer/second"})
          CHECK(went_on.get_vector<float>(field) == ran_through.get_vector<float>(field));
      }
      const Archive model = CheckpointStore::read_model(checkpoint_of(whole, 8));
      CHECK_FALSE(model.contains("optimizer/first"));
      CHECK(model.contains("update/outer/momentum"));
    }
  }
}

TEST_CASE("local steps: a run that resumes after any step, within a round too, has the bits of one that did not stop") {
  for (const Overrides& method : {Overrides{}, Overrides{"compression.method=topk", "compression.codec.indices=rice",
                                                         "compression.codec.values=int8"}}) {
    CAPTURE(method.size());
    Overrides overrides{"optimizer.name=adamw",      "optimizer.learning_rate=0.01", "update.outer.momentum=0.5",
                        "checkpoint.every_steps=1",  "checkpoint.keep=99",           "train.max_steps=7",
                        "train.eval_every_epochs=1", "data.train_samples=24",        "train.epochs=9",
                        "schedule.name=plateau"};
    overrides.insert(overrides.end(), method.begin(), method.end());
    const RunSpec config = local_config(3, overrides);
    const TemporaryFolder whole;
    quick_run(config, 2, whole.path());
    for (std::uint64_t step = 1; step < 7; ++step) {
      CAPTURE(step);
      const Archive model = CheckpointStore::read_model(checkpoint_of(whole, step));
      // The model is that of the last exchange, and each rank's parameters are its own.
      const std::uint64_t exchanged = step - step % 3;
      if (exchanged > 0)
        CHECK(model.get_vector<float>("parameters") ==
              CheckpointStore::read_model(checkpoint_of(whole, exchanged)).get_vector<float>("parameters"));
      const Archive rank = CheckpointStore::read_rank(checkpoint_of(whole, step), 1);
      CHECK(rank.contains("update/parameters") == (step % 3 != 0));
      const TemporaryFolder resumed;
      quick_run(config, 2, resumed.path(), checkpoint_of(whole, step).string());
      CHECK(results(CheckpointStore::read_model(checkpoint_of(resumed, 7))) ==
            results(CheckpointStore::read_model(checkpoint_of(whole, 7))));
      for (int r = 0; r < 2; ++r)
        CHECK(results(CheckpointStore::read_rank(checkpoint_of(resumed, 7), r)) ==
              results(CheckpointStore::read_rank(checkpoint_of(whole, 7), r)));
    }
  }
}

TEST_CASE("local steps: the ranks of a checkpoint may have done different numbers of steps") {
  const RunSpec config = local_config(9);
  const TemporaryFolder folder;
  const Job job{config, load_data(config), {folder.path()}, ""};
  const CheckpointStore store(folder.path() / "checkpoints");
  std::vector<std::uint64_t> steps(2);
  comm::run_local(2, local_options(config, 2), [&](comm::Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    layers::Network network = make_network(config, *job.data.train);
    const RunPlan plan = plan_run(config, network, communicator.size());
    TrainingState state(config, std::move(network));
    Generation generation(job, plan, state, communicator);
    state.progress.step = 4 + rank;
    store.save(communicator, state.progress.step,
               [&](Archive* model, Archive& own) { generation.save(model, own, {}); });
    state.progress.step = 0;
    CheckpointSource source(store.newest());
    generation.reshard_from(source);
    steps[rank] = state.progress.step;
  });
  CHECK(store.list() == std::vector<fs::path>{checkpoint_of(folder, 4)});
  CHECK(steps == std::vector<std::uint64_t>{4, 5});
}

TEST_CASE("local steps: within a round rank r of another number of workers goes on from rank r modulo the former one") {
  const RunSpec config = local_config(
      3, {"compression.method=topk", "train.max_steps=6", "checkpoint.every_steps=4", "checkpoint.keep=9"});
  for (const auto& [workers, others] : {std::pair(2, 3), std::pair(3, 2), std::pair(2, 1)}) {
    CAPTURE(workers);
    CAPTURE(others);
    const TemporaryFolder folder, resumed;
    quick_run(config, workers, folder.path());
    const fs::path checkpoint = checkpoint_of(folder, 4);
    std::vector<std::vector<float>> inner(static_cast<std::size_t>(others)), outer = inner;
    on_resharded(config, others, checkpoint, [&](std::size_t rank, Generation& generation) {
      const auto model = generation.model_parameters();
      outer[rank].assign(model.begin(), model.end());
      const auto own = generation.state.parameters();
      inner[rank].assign(own.begin(), own.end());
    });
    const auto model = CheckpointStore::read_model(checkpoint).get_vector<float>("parameters");
    for (int rank = 0; rank < others; ++rank) {
      CHECK(outer[static_cast<std::size_t>(rank)] == model);
      CHECK(inner[static_cast<std::size_t>(rank)] ==
            CheckpointStore::read_rank(checkpoint, rank % workers).get_vector<float>("update/parameters"));
    }
    quick_run(config, others, resumed.path(), checkpoint.string());  // its replicas are equal in the end
  }
}

TEST_CASE("local steps: a rank of another number of workers takes the optimizer of rank r modulo the former number") {
  const Overrides overrides{"optimizer.name=adamw", "compression.method=topk", "train.max_steps=2"};
  const RunSpec config = local_config(2, overrides);
  for (const auto& [workers, others] : {std::pair(2, 3), std::pair(3, 2)}) {
    CAPTURE(workers);
    const TemporaryFolder folder;
    quick_run(config, workers, folder.path());
    const fs::path checkpoint = checkpoint_of(folder, 2);
    std::vector<Archive> taken(static_cast<std::size_t>(others));
    on_resharded(config, others, checkpoint,
                 [&](std::size_t rank, Generation& generation) { generation.state.save_rank(taken[rank]); });
    for (int rank = 0; rank < others; ++rank) {
      const Archive saved = CheckpointStore::read_rank(checkpoint, rank % workers);
      CHECK(taken[static_cast<std::size_t>(rank)].get_vector<float>("optimizer/first") ==
            saved.get_vector<float>("optimizer/first"));
    }
  }
}

TEST_CASE("local steps: a run goes on locally from a synchronous one, and not the other way round") {
  const TemporaryFolder synchronous, local, back;
  quick_run(quick_config({"train.max_steps=2"}), 2, synchronous.path());
  quick_run(local_config(2, {"train.max_steps=4"}), 2, local.path(), checkpoint_of(synchronous, 2).string());
  CHECK(CheckpointStore::read_rank(checkpoint_of(local, 4), 1).contains("optimizer/momentum"));
  std::string error;
  try {
    quick_run(quick_config(), 2, back.path(), checkpoint_of(local, 4).string());
  } catch (const Error& thrown) {
    error = thrown.what();
  }
  CHECK(contains(error, "with update.scheme = \"synchronous\" they share one: expected the scheme that saved it"));
}

TEST_CASE("local steps: a sum is divided by the number of ranks, or at each index by those that sent it") {
  constexpr int kRanks = 3;
  const std::vector<std::vector<float>> changes{{5, -2, 1, 3}, {4, 1, -6, 2}, {0, 8, 0, -3}};
  const auto parameters = [&](const exchange::ExchangeRules& rules) {
    std::vector<float> values;
    comm::run_local(kRanks, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
      OuterRank rank(rules, communicator);
      const auto sums = rank.exchange_change(changes[static_cast<std::size_t>(communicator.rank())], 0.5);
      rank.exchange.commit(rank.timers);
      rank.outer.step(sums, 1, 0);
      rank.outer.give(rank.arena.layout(), 0);
      const auto after = rank.arena.values().host();
      if (communicator.rank() == 0) values.assign(after.begin(), after.end());
    });
    return values;
  };
  exchange::ExchangeRules rules = exchange::testing::rules_of({"topk", "allgather", "residual"});
  // Two ranks send indices 0 and 3, one sends 1 and another 2. The sums are 9, 8, -6 and 0.
  CHECK(parameters(rules) == std::vector<float>{-9 / 3.0f, -8 / 3.0f, 6 / 3.0f, 0});
  rules.averages_senders = true;
  CHECK(parameters(rules) == std::vector<float>{-9 / 2.0f, -8, 6, 0});
}

TEST_CASE("local steps: the mean over senders is that over ranks where all send, and needs a collective that knows") {
  const auto run = [](Overrides overrides) {
    const TemporaryFolder folder;
    return quick_run(local_config(2, std::move(overrides)), 3, folder.path()).parameters;
  };
  for (const Overrides& others :
       {Overrides{}, Overrides{"compression.method=topk", "compression.collective=index_union"},
        Overrides{"compression.method=qsgd"}}) {
    Overrides senders = others;
    senders.push_back("update.average=senders");
    CHECK(run(senders) == run(others));
  }
  CHECK(run({"compression.method=topk", "update.average=senders"}) != run({"compression.method=topk"}));
  CHECK(error_of({"compression.method=topk", "compression.collective=gtopk", "update.average=senders"}) ==
        "quick.toml: update.average = \"senders\" does not go with collective 'gtopk', which cannot tell how many "
        "workers sent an entry; valid: allgather, cltk, dense, exdyna, index_union; or average = \"ranks\"");
  CHECK(contains(error_of({"comm.backend=nccl", "update.average=senders"}), "as the host counts senders: expected"));
}

TEST_CASE("local steps: median_clip takes a tensor's change down to the median norm over ranks") {
  // Of "w" the norms are 5, 10 and 1000; those of "b" are equal, or one is not finite.
  const std::vector<std::vector<float>> changes{{3, 4, 2}, {6, 8, 2}, {600, 800, 2}};
  const auto clipped = [&](int ranks, float last) {
    std::vector<std::vector<float>> result(static_cast<std::size_t>(ranks));
    comm::run_local(ranks, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
      ParameterArena arena;
      arena.declare("w", {1, 2}, ParameterRole::kWeight);
      arena.declare("b", {1}, ParameterRole::kBias);
      arena.allocate();
      std::ranges::fill(arena.values().host(), 1.0f);
      OuterParameters outer(arena, sgd(0));
      outer.keep();
      const auto rank = static_cast<std::size_t>(communicator.rank());
      for (std::size_t i = 0; i < 3; ++i) arena.values().host()[i] -= changes[rank][i];
      if (communicator.rank() + 1 == ranks) arena.values().host()[2] -= last;
      const View<const float> change = outer.take_change(arena.layout());
      outer.clip_change(communicator, arena.layout());
      result[rank].assign(change.host().begin(), change.host().end());
      if (std::ranges::any_of(outer.values().host(), [](float value) { return value != 1; }))
        throw Error("the common parameters stay");
    });
    return result;
  };
  const auto three = clipped(3, std::numeric_limits<float>::infinity());
  CHECK(three[0] == changes[0]);
  CHECK(three[1] == changes[1]);
  CHECK(three[2][0] == doctest::Approx(6));
  CHECK(three[2][1] == doctest::Approx(8));
  CHECK(std::isinf(three[2][2]));  // the exchange must see it
  // Of two norms the lower is the median.
  CHECK(clipped(2, 0) == std::vector<std::vector<float>>{{3, 4, 2}, {3, 4, 2}});
  CHECK(clipped(1, 0) == std::vector<std::vector<float>>{changes[0]});
}

TEST_CASE("local steps: a run with median_clip differs where ranks do, and a single worker's does not") {
  const auto run = [](int world_size, const char* clips) {
    const TemporaryFolder folder;
    const RunSpec config = local_config(2, {"compression.method=topk", fmt::format("update.median_clip={}", clips)});
    return quick_run(config, world_size, folder.path()).parameters;
  };
  CHECK(run(3, "true") != run(3, "false"));
  CHECK(run(1, "true") == run(1, "false"));
}

TEST_CASE("local steps: an abandoned exchange of changes is made up for by the next") {
  constexpr int kRanks = 2;
  const exchange::ExchangeRules rules = exchange::testing::rules_of({"topk", "allgather", "residual"});
  std::vector<double> lost(4);  // by element: changes of all ranks, less what was applied and what stays behind
  std::vector<std::vector<float>> changes{{5, -2, 1, 3}, {4, 1, -6, 2}};
  comm::run_local(kRanks, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    const std::vector<float>& change = changes[static_cast<std::size_t>(communicator.rank())];
    OuterRank rank(rules, communicator);
    rank.exchange_change(change, 0.25);
    rank.exchange.abandon();
    if (std::ranges::any_of(rank.outer.values().host(), [](float value) { return value != 0; }))
      throw Error("an abandoned exchange leaves the common parameters");
    rank.outer.give(rank.arena.layout(), 0);
    const auto sums = rank.exchange_change(change, 0.25);
    rank.exchange.commit(rank.timers);
    rank.outer.step(sums, 1, 0);
    rank.outer.give(rank.arena.layout(), 0);
    std::vector<double> mass(4);
    for (std::size_t i = 0; i < mass.size(); ++i) {
      const float kept = rank.exchange.memory(0).residual().host()[i];
      mass[i] = 2 * change[i] - kept + rank.arena.values().host()[i];  // each rank applied half of the sum
    }
    communicator.allreduce_sum(std::span<double>(mass));
    if (communicator.rank() == 0) lost = mass;
  });
  CHECK(lost == std::vector<double>(4));
}

TEST_CASE("local steps: a worker skips its own step if its gradient is not finite, where steps are skipped") {
  const TemporaryFolder folder;
  // Steps of this rate multiply the parameters by about 1e8 each, so only the first few have finite gradients.
  const auto run = [&](const char* non_finite) {
    return quick_run(local_config(6, {"optimizer.learning_rate=1e8", fmt::format("train.non_finite={}", non_finite)}),
                     2, folder.path());
  };
  CHECK_THROWS_AS(run("error"), comm::CollectiveError);
  const QuickResult skipping = run("skip");
  CHECK(skipping.exit_code == 0);
  CHECK(std::ranges::all_of(skipping.parameters, [](float value) { return std::isfinite(value); }));
}

TEST_CASE(
    "local steps: a signal stops the run within a round, with a checkpoint from which it goes on to the same bits") {
  const RunSpec config = local_config(100, {"train.max_steps=200", "train.epochs=99", "compression.method=topk"});
  for (const int world_size : {1, 2, 3, 5, 8}) {
    CAPTURE(world_size);
    const TemporaryFolder folder, whole;
    const QuickResult expected = quick_run(config, world_size, whole.path());
    receive_stop_signal();
    CHECK(quick_run(config, world_size, folder.path()).exit_code == kExitRequeue);
    StopSignals::install();
    const auto checkpoints = CheckpointStore(folder.path() / "checkpoints").list();
    CHECK(checkpoints == std::vector<fs::path>{checkpoint_of(folder, 1)});
    CHECK(quick_run(config, world_size, folder.path(), checkpoint_of(folder, 1).string()).parameters ==
          expected.parameters);
  }
}

TEST_CASE("local steps: ranks that stopped at different steps of a round go on to the same bits, in that round only") {
  const RunSpec config = local_config(9, {"train.max_steps=12", "checkpoint.every_steps=5", "checkpoint.keep=9"});
  const TemporaryFolder folder, whole, resumed;
  const QuickResult expected = quick_run(config, 2, whole.path());
  // Rank 0 stops after step 6, rank 1 after step 8.
  const Job job{config, load_data(config), {folder.path()}, ""};
  const CheckpointStore store(folder.path() / "checkpoints");
  comm::run_local(2, local_options(config, 2), [&](comm::Communicator& communicator) {
    layers::Network network = make_network(config, *job.data.train);
    const RunPlan plan = plan_run(config, network, communicator.size());
    TrainingState state(config, std::move(network));
    Generation generation(job, plan, state, communicator);
    generation.loader.seek(0, 0);
    const std::uint64_t steps = communicator.rank() == 0 ? 6 : 8;
    while (state.progress.step < steps) {
      const double rate = state.schedule->learning_rate(state.progress.step);
      generation.scheme->step(generation, {.learning_rate = rate});
      ++state.progress.step;
    }
    store.save(communicator, steps, [&](Archive* model, Archive& own) { generation.save(model, own, {}); });
  });
  CHECK(quick_run(config, 2, resumed.path(), checkpoint_of(folder, 6).string()).parameters == expected.parameters);
  // Rank 0 saves nothing where rank 1 is past the step.
  const RunSpec more = local_config(9, {"train.max_steps=12", "checkpoint.every_steps=1", "checkpoint.keep=9"});
  CHECK(quick_run(more, 2, resumed.path(), checkpoint_of(folder, 6).string()).parameters == expected.parameters);
  CHECK(fs::exists(checkpoint_of(resumed, 9)));
  CHECK_FALSE(fs::exists(checkpoint_of(resumed, 7)));
  for (const auto& [inner_steps, steps] : {std::pair(7, 12), std::pair(9, 8)}) {
    const RunSpec other = local_config(inner_steps, {fmt::format("train.max_steps={}", steps)});
    std::string error;
    try {
      quick_run(other, 2, resumed.path(), checkpoint_of(folder, 6).string());
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    CHECK(contains(error, "the ranks go on from steps 6 to 8"));
  }
}

TEST_CASE(
    "local steps: another number of workers within an epoch goes on to the same bits from both sides of its end") {
  // Two workers leave epoch 1 after 4 of 16 steps; three deal the rest out, 72 samples in 8 steps. So it ends with step
  // 12, in the round of steps 10 to 18.
  const auto config = [](int steps) {
    return local_config(9, {"train.epochs=9", fmt::format("train.max_steps={}", steps), "compression.method=topk"});
  };
  const TemporaryFolder two, whole;
  quick_run(config(4), 2, two.path());
  const fs::path resized = checkpoint_of(two, 4);
  const QuickResult expected = quick_run(config(24), 3, whole.path(), resized.string());
  for (const std::vector<std::uint64_t>& stops : {std::vector<std::uint64_t>{10, 13, 11}, {14, 10, 12}}) {
    CAPTURE(stops[0]);
    const TemporaryFolder stopped, resumed;
    const CheckpointStore store(stopped.path() / "checkpoints");
    on_resharded(config(24), 3, resized, [&](std::size_t rank, Generation& generation) {
      TrainingState& state = generation.state;
      const std::uint64_t scheduled = state.position.scheduled(state.progress.step);
      generation.loader.seek(0, scheduled);
      for (; state.progress.step < stops[rank]; ++state.progress.step)
        generation.scheme->step(generation,
                                {.learning_rate = state.learning_rate(state.progress.step), .density = 0.1});
      store.save(generation.communicator, state.progress.step,
                 [&](Archive* model, Archive& own) { generation.save(model, own, {}); });
    });
    const fs::path checkpoint = checkpoint_of(stopped, stops[0]);
    CHECK(quick_run(config(24), 3, resumed.path(), checkpoint.string()).parameters == expected.parameters);
    RunSpec other_batch = config(24);
    other_batch.train.batch_size = 2;
    on_resharded(other_batch, 3, checkpoint, [&](std::size_t, Generation& generation) {
      if (generation.state.progress.step != stops[0]) throw Error("all ranks go on from rank 0's step");
    });
    quick_run(other_batch, 3, resumed.path(), checkpoint.string());
  }
}

TEST_CASE("local steps: what belongs to gradients is refused in one line, and dgc keeps a plain residual") {
  CHECK(local_config(3, {"compression.method=dgc"}).compression.memory.name == "residual");
  CHECK(
      error_of({"compression.method=topk", "compression.memory=momentum_correction"}) ==
      "quick.toml: compression.memory = \"momentum_correction\" applies the momentum of gradients, and update.scheme = "
      "\"local\" exchanges changes of parameters: expected low_pass | none | residual");
  CHECK(contains(error_of({"compression.method=topk", "compression.memory=econtrol"}),
                 "estimates a gradient, which changes little from step to step, and update.scheme = \"local\""));
  CHECK(contains(error_of({"compression.method=topk", "compression.acc_form=folded"}), "expected \"raw\""));
  CHECK(contains(error_of({"train.clip=global"}), "expected none | local | local_sqrt_workers"));
  CHECK(contains(error_of({"update.outer.optimizer=sdg"}), "update.outer.optimizer = \"sdg\": expected adam | adamw"));
  CHECK(contains(error_of({"update.outer.rate=1"}), "unknown key"));
  CHECK(contains(error_of({"update.outer.rate=1"}), "update.outer.learning_rate"));
  CHECK(contains(error_of({"update.inner_steps=0"}), "expected integer of at least 1"));
}

TEST_CASE("local steps: the outer settings stand in a table, or behind a dot, and print so that they read back") {
  const std::string text = std::string(kQuickConfig) + "[update]\nscheme = \"local\"\n";
  const RunSpec table = parse_config(text + "[update.outer]\nmomentum = 0.5\n", "a.toml");
  CHECK(table.update.scheme.settings.number("outer.momentum") == 0.5);
  CHECK(to_toml(parse_config(to_toml(table), "b.toml")) == to_toml(table));
  CHECK(to_toml(parse_config(text + "outer.momentum = 0.5\n", "c.toml")) == to_toml(table));
  // Another scheme on the command line drops the file's settings.
  CHECK(parse_config(text + "inner_steps = 5\n", "d.toml", Overrides{"update.scheme=synchronous"}).notes.size() == 1);
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
