// SPDX-License-Identifier: MIT
/// Local steps by fragments: torchft's values, the bits of inner steps that go on beside an exchange, resumes while a
/// fragment is on its way, and what is evaluated, saved and measured.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "comm/local/local.h"
#include "core/file.h"
#include "core/hash.h"
#include "optim/optimizer.h"
#include "tests/exchange/combinations.h"
#include "tests/support/text.h"
#include "tests/trainer/quick_run.h"
#include "tests/trainer/resharded.h"
#include "trainer/run/evaluation.h"
#include "trainer/run/plan.h"
#include "trainer/run/training.h"
#include "trainer/update/schemes/fragments.h"
#include "trainer/update/schemes/outer_parameters.h"

namespace dragonn::trainer::testing {
namespace {

using dragonn::test::contains;

namespace fs = std::filesystem;
using Overrides = std::vector<std::string>;

/// Three layers in two fragments, each of which is exchanged in 6 steps and arrives 2 steps after that began.
RunSpec streaming_config(Overrides overrides = {}) {
  overrides.insert(overrides.begin(), {"update.scheme=local", "update.inner_steps=6", "update.fragments=2",
                                       "update.overlap_steps=2", "update.mix=0.5", "update.outer.momentum=0.5",
                                       "optimizer.name=adamw", "optimizer.learning_rate=0.01", "train.max_steps=14"});
  return quick_config(overrides);
}

const Overrides kCodedTopk{"compression.method=topk", "compression.codec.indices=rice",
                           "compression.codec.values=int8"};

fs::path checkpoint_of(const TemporaryFolder& folder, std::uint64_t step) {
  return folder.path() / "checkpoints" / CheckpointStore::folder_name(step);
}

std::vector<nlohmann::json> lines_of(const TemporaryFolder& folder) {
  std::ifstream file(folder.path() / "metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string text; std::getline(file, text);) lines.push_back(nlohmann::json::parse(text));
  return lines;
}

OuterParameters::MakeOptimizer sgd() {
  return [](ParameterArena& arena) {
    const optim::OptimizerEntry& entry = Registry<optim::OptimizerEntry>::instance().at("sgd");
    Settings settings(entry.settings);
    for (const char* key : {"weight_decay", "momentum"}) settings.set(key, 0.0);
    settings.set("nesterov", false);
    return entry.make(settings, arena);
  };
}

/// Returns, by layer, its values after the steps in which it arrives, up to step `steps`: torchft's fixture. Two layers
/// of one element start at 1 and move by -2 in each step; the outer step of two equal ranks has rate 2.
std::vector<std::vector<float>> arrivals(std::uint64_t overlap, float mix, std::uint64_t steps) {
  constexpr int kRanks = 2;
  ParameterArena arena;
  for (const char* name : {"layer0.weight", "layer1.weight"}) arena.declare(name, {1, 1}, ParameterRole::kWeight);
  arena.allocate();
  std::ranges::fill(arena.values().host(), 1.0f);
  OuterParameters outer(arena, sgd());
  outer.keep();
  const FragmentSchedule schedule{6, 2, overlap};
  std::vector<std::vector<float>> result(2);
  for (std::uint64_t done = 0; done < steps; ++done) {
    const FragmentTurn turn = schedule.next(done);
    const ParameterId id = turn.fragment;
    const auto exchange = [&] {
      const std::vector<float> sum{kRanks * outer.take_change(std::span(&id, 1)).host()[arena[id].offset]};
      const exchange::BucketSum exchanged{
          .offset = arena[id].offset, .size = 1, .divisor = kRanks, .dense = View<const float>(std::span(sum))};
      outer.step(std::span(&exchanged, 1), 2, 0);
    };
    if (schedule.begins(done)) exchange();
    for (float& value : arena.values().host()) value -= 2;
    if (turn.arrives != done + 1) continue;
    if (overlap == 0) exchange();
    outer.give(std::span(&id, 1), mix);
    result[id].push_back(arena.value(id).host()[0]);
  }
  return result;
}

std::string error_of(const Overrides& overrides) {
  try {
    const RunSpec config = streaming_config(overrides);
    plan_run(config, make_network(config), 2);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// Returns the parameters at the end of a run whose inner steps are made by the thread that communicates.
std::vector<float> without_second_thread(const RunSpec& config, int world_size) {
  const TemporaryFolder folder;
  const Job job{config, load_data(config), {folder.path()}, ""};
  std::vector<float> parameters;
  comm::run_local(world_size, local_options(config, world_size), [&](comm::Communicator& communicator) {
    layers::Network network = make_network(config, *job.data.train);
    const RunPlan plan = plan_run(config, network, communicator.size());
    TrainingState state(config, std::move(network));
    Training training(job, plan, state, communicator);
    training.generation().compute_thread.reset();
    training.train();
    const auto mine = state.parameters();
    if (communicator.rank() == 0) parameters.assign(mine.begin(), mine.end());
  });
  log::set_file({});
  return parameters;
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("streaming: fragments that arrive have torchft's values") {
  using Values = std::vector<float>;
  for (const std::uint64_t overlap : {0, 1}) {
    CAPTURE(overlap);
    CHECK(arrivals(overlap, 0, 15)[0] == (overlap == 0 ? Values{-11, -35, -59} : Values{-7, -27, -47}));
    CHECK(arrivals(overlap, 0.5f, 15)[0] == (overlap == 0 ? Values{-8, -24.5, -40.25} : Values{-6, -21.5, -35.75}));
    CHECK(arrivals(overlap, 1, 15)[0] == Values{-5, -17, -29});
  }
  CHECK(arrivals(0, 0, 12)[1] == Values{-23, -47});
  CHECK(arrivals(1, 0, 12)[1] == Values{-19, -39});  // 1 - 2 x 10, then -19 - 2 x 10
  CHECK(arrivals(1, 1, 12)[1] == Values{-11, -23});
}

TEST_CASE("streaming: layers take turns, and a fragment consists of whole buckets") {
  ParameterArena arena;
  for (const char* name : {"embedding.weight", "layer0.a.weight", "layer0.b.weight", "layer1.a.weight", "norm.scale"})
    arena.declare(name, {2, 2}, ParameterRole::kWeight);
  arena.lay_out();
  CHECK(exchange::fragments_of(arena, 1) == std::vector<std::size_t>(5));
  CHECK(exchange::fragments_of(arena, 2) == std::vector<std::size_t>{0, 1, 1, 0, 1});
  CHECK(exchange::fragments_of(arena, 4) == std::vector<std::size_t>{0, 1, 1, 2, 3});
  const std::vector<exchange::Bucket> buckets = exchange::make_buckets(arena, {.compress = false, .fragments = 2});
  std::vector<std::string> names;
  for (const exchange::Bucket& bucket : buckets) names.push_back(fmt::format("{} {}", bucket.name, bucket.fragment));
  CHECK(names == std::vector<std::string>{"layer1.a.weight 0", "embedding.weight 0", "norm.scale 1",
                                          "layer0.b.weight..layer0.a.weight 1"});
  CHECK(exchange::make_groups(buckets, {.bytes = 1 << 20}).size() == 2);
}

TEST_CASE("streaming: one fragment without overlap is the scheme without fragments") {
  const auto run = [](const Overrides& others) {
    Overrides overrides{"update.scheme=local", "update.inner_steps=2", "compression.method=topk"};
    overrides.insert(overrides.end(), others.begin(), others.end());
    const TemporaryFolder folder;
    return quick_run(quick_config(overrides), 2, folder.path()).parameters;
  };
  CHECK(run({"update.fragments=1", "update.overlap_steps=0", "update.mix=0"}) == run({}));
  CHECK(run({"update.overlap_steps=1"}) != run({}));
  CHECK(run({"update.mix=0.5"}) != run({}));
  CHECK(run({"update.fragments=2"}) != run({}));
}

TEST_CASE("streaming: inner steps beside an exchange have the bits of a run without a second thread") {
  for (const int world_size : {1, 2, 3, 5, 8}) {
    for (const Overrides& method : {Overrides{}, kCodedTopk}) {
      CAPTURE(world_size);
      CAPTURE(method.size());
      const RunSpec config = streaming_config(method);
      const TemporaryFolder folder;
      CHECK(quick_run(config, world_size, folder.path()).parameters == without_second_thread(config, world_size));
    }
  }
}

TEST_CASE("streaming: a run that resumes after any step of two rounds has the bits of one that did not stop") {
  for (const Overrides& method : {Overrides{}, kCodedTopk}) {
    CAPTURE(method.size());
    Overrides overrides{"checkpoint.every_steps=1", "checkpoint.keep=99", "train.eval_every_epochs=1",
                        "data.train_samples=24",    "train.epochs=9",     "update.median_clip=true"};
    overrides.insert(overrides.end(), method.begin(), method.end());
    const RunSpec config = streaming_config(overrides);
    const TemporaryFolder whole, unsaved;
    const QuickResult expected = quick_run(config, 2, whole.path());
    // Checkpoints stop the steps that are made ahead, and change no bits.
    Overrides rarely = overrides;
    rarely.emplace_back("checkpoint.every_steps=0");
    CHECK(quick_run(streaming_config(rarely), 2, unsaved.path()).parameters == expected.parameters);
    for (std::uint64_t step = 1; step < 14; ++step) {
      CAPTURE(step);
      // Steps 1, 4, 7 and so on end with an exchange that is about to begin, the next ones with a fragment on its way.
      const Archive rank = CheckpointStore::read_rank(checkpoint_of(whole, step), 1);
      CHECK(rank.contains("update/arriving") == (step % 3 == 2));
      const TemporaryFolder resumed;
      quick_run(config, 2, resumed.path(), checkpoint_of(whole, step).string());
      CHECK(results(CheckpointStore::read_model(checkpoint_of(resumed, 14))) ==
            results(CheckpointStore::read_model(checkpoint_of(whole, 14))));
      for (int r = 0; r < 2; ++r)
        CHECK(results(CheckpointStore::read_rank(checkpoint_of(resumed, 14), r)) ==
              results(CheckpointStore::read_rank(checkpoint_of(whole, 14), r)));
    }
  }
}

TEST_CASE("streaming: another number of workers takes over a fragment on its way") {
  Overrides overrides{"checkpoint.every_steps=1", "checkpoint.keep=99"};
  overrides.insert(overrides.end(), kCodedTopk.begin(), kCodedTopk.end());
  const RunSpec config = streaming_config(overrides);
  const TemporaryFolder folder;
  quick_run(config, 3, folder.path());
  const Archive model = CheckpointStore::read_model(checkpoint_of(folder, 8));
  for (const int others : {1, 2, 5}) {
    CAPTURE(others);
    const TemporaryFolder resumed, again;
    quick_run(config, others, resumed.path(), checkpoint_of(folder, 8).string());
    // It resumes invisibly from then on, and gives the fragment in step 9 as the other ranks would have.
    quick_run(config, others, again.path(), checkpoint_of(resumed, 9).string());
    CHECK(results(CheckpointStore::read_model(checkpoint_of(again, 14))) ==
          results(CheckpointStore::read_model(checkpoint_of(resumed, 14))));
    CHECK(CheckpointStore::read_model(checkpoint_of(resumed, 9)).get_vector<float>("parameters") ==
          model.get_vector<float>("parameters"));
  }
}

TEST_CASE("streaming: a fragment on its way arrives at the start if changed settings give it another turn") {
  const TemporaryFolder folder, resumed;
  quick_run(streaming_config({"checkpoint.every_steps=1", "checkpoint.keep=99"}), 2, folder.path());
  const fs::path checkpoint = checkpoint_of(folder, 2);  // fragment 0 arrives after step 3
  const RunSpec longer = streaming_config({"update.inner_steps=12", "update.mix=0"});
  on_resharded(longer, 2, checkpoint, [](std::size_t, Generation& generation) {
    ParameterArena& arena = generation.state.network.arena();
    const std::vector<std::size_t> fragment_of = exchange::fragments_of(arena, 2);
    const auto fragments_that_arrived = [&] {
      std::vector<bool> arrived(2, true);
      const auto model = generation.model_parameters();
      for (const ParameterId id : arena.layout()) {
        const auto common = model.subspan(arena[id].offset, arena[id].size);
        if (!std::ranges::equal(arena.value(id).host(), common)) arrived[fragment_of[id]] = false;
      }
      return arrived;
    };
    UpdateScheme& scheme = *generation.scheme;
    if (!scheme.awaits_result() || fragments_that_arrived() != std::vector<bool>{false, false})
      throw Error("the fragment is on its way");
    scheme.begin(generation, {});
    if (scheme.awaits_result() || fragments_that_arrived() != std::vector<bool>{true, false})
      throw Error("the fragment has arrived");
  });
  quick_run(longer, 2, resumed.path(), checkpoint.string());
}

TEST_CASE("streaming: the changes of a fragment whose exchange is abandoned go with its next one") {
  constexpr int kRanks = 2;
  exchange::ExchangeRules rules = exchange::testing::rules_of({"topk", "allgather", "residual"});
  rules.buckets.fragments = 2;
  const std::vector<std::vector<float>> changes{{5, -2, 1, 3, 7, 1, 2, 4}, {4, 1, -6, 2, 1, 1, 1, -8}};
  std::vector<double> lost(8, 1);
  comm::run_local(kRanks, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    const std::vector<float>& change = changes[static_cast<std::size_t>(communicator.rank())];
    ParameterArena arena;
    for (const char* name : {"b.weight", "a.weight"}) arena.declare(name, {2, 2}, ParameterRole::kWeight);
    arena.allocate();
    exchange::GradientExchange exchange(rules, arena, communicator);
    OuterParameters outer(arena, sgd());
    outer.keep();
    StepTimers timers;
    const auto send = [&](std::size_t fragment) {
      const ParameterId id = fragment;  // and its group, as each has one tensor
      return exchange.run({.density = 0.25, .groups = std::span(&fragment, 1)}, outer.take_change(std::span(&id, 1)),
                          timers);
    };
    const auto move = [&] {
      for (std::size_t i = 0; i < change.size(); ++i) arena.values().host()[i] -= change[i];
    };
    move();
    send(0);
    exchange.abandon();  // all of the change is in the residual
    const ParameterId first = 0, second = 1;
    outer.give(std::span(&first, 1), 0);
    for (const ParameterId id : {first, second}) {
      if (id == first) {
        for (float& value : arena.value(first).host()) value -= 1;
      }
      const auto sums = send(id);
      exchange.commit(timers);
      outer.step(sums, 1, 0);
      outer.give(std::span(&id, 1), 0);
    }
    std::vector<double> mass(8);
    for (std::size_t bucket = 0; bucket < exchange.buckets().size(); ++bucket) {
      for (std::size_t i = 0; i < exchange.buckets()[bucket].size; ++i) {
        const std::size_t at = exchange.buckets()[bucket].offset + i;
        const float more = at >= arena[first].offset ? 1 : 0;
        mass[at] = change[at] + more - exchange.memory(bucket).residual().host()[i] + arena.values().host()[at];
      }
    }
    communicator.allreduce_sum(std::span<double>(mass));
    if (communicator.rank() == 0) lost = mass;
  });
  CHECK(lost == std::vector<double>(8));
}

TEST_CASE("streaming: what looks at the model comes with arrivals, and sees the common parameters") {
  const TemporaryFolder folder;
  const RunSpec config = streaming_config({"train.eval_every_epochs=1", "data.train_samples=24", "train.epochs=9",
                                           "train.replica_check_every=1", "checkpoint.every_steps=6",
                                           "checkpoint.keep=9", "compression.method=topk"});
  quick_run(config, 2, folder.path());  // 4 steps in an epoch
  std::vector<std::string> kinds;
  for (const auto& line : lines_of(folder)) {
    kinds.push_back(fmt::format("{} {}", line["kind"].get<std::string>(), line["step"].get<int>()));
    if (line["kind"] != "step") continue;
    CAPTURE(line.dump());
    CHECK(line["bytes_sent"]["mean"] > 0);
    CHECK(line["drift"] > 0);
    CHECK(line["utilization"] > 0);
    CHECK(line["utilization"] < 1);
    CHECK(line["seconds"].contains("exchange"));
  }
  CHECK(kinds == std::vector<std::string>{"step 3", "step 6", "eval 6", "step 9", "eval 9", "step 12", "eval 12",
                                          "step 14", "eval 14"});
  // A network with the checkpoint's parameters, which are those of the model, has the evaluation's loss.
  const auto lines = lines_of(folder);
  const auto at_six =
      std::ranges::find_if(lines, [](const auto& line) { return line["kind"] == "eval" && line["step"] == 6; });
  layers::Network network = make_network(config);
  TrainingState state(config, std::move(network));
  load_model(checkpoint_of(folder, 6), config, state.network);
  double loss = 0;
  const data::DatasetSplits data = load_data(config);
  comm::run_local(1, local_options(config, 1), [&](comm::Communicator& communicator) {
    data::EvaluationLoader loader(data.test, 8, 0, 1);
    loss = evaluate(communicator, state.network, loader).loss;
  });
  CHECK((*at_six)["loss"].get<double>() == doctest::Approx(loss));
  const auto summary = nlohmann::json::parse(read_text_file(folder / "summary.json"));
  CHECK(summary["utilization"] > 0);
  CHECK(summary["density_mean"].get<double>() == doctest::Approx(0.1).epsilon(0.1));
}

TEST_CASE("streaming: on a virtual cluster inner steps hide an exchange that takes no longer than they do") {
  const auto line_after_step_12 = [](const char* overlap, const char* latency_us) {
    const TemporaryFolder folder;
    quick_run(streaming_config({"network.model=alpha-beta", "network.gbps=1", "network.compute=zero",
                                "network.step_ms=100", fmt::format("network.latency_us={}", latency_us),
                                fmt::format("update.overlap_steps={}", overlap)}),
              2, folder.path());
    const auto lines = lines_of(folder);
    return *std::ranges::find_if(lines, [](const auto& line) { return line["kind"] == "step" && line["step"] == 12; });
  };
  const auto hidden = line_after_step_12("2", "1000"), plain = line_after_step_12("0", "1000");
  CHECK(hidden["time"].get<double>() == doctest::Approx(1.2));  // 12 steps
  CHECK(hidden["seconds"]["exchange_hidden"] > 0);
  CHECK_FALSE(hidden["seconds"].contains("exchange_exposed"));
  CHECK(plain["time"].get<double>() > 1.2 + 4 * 0.002);  // each exchange takes two latencies at least
  CHECK_FALSE(plain["seconds"].contains("exchange_hidden"));
  // Two steps hide 0.2 s of each of four exchanges.
  const auto slow = line_after_step_12("2", "200000"), plain_and_slow = line_after_step_12("0", "200000");
  CHECK(slow["seconds"]["exchange_hidden"].get<double>() == doctest::Approx(0.2));
  CHECK(slow["seconds"]["exchange_exposed"] > 0);
  CHECK(slow["time"].get<double>() == doctest::Approx(plain_and_slow["time"].get<double>() - 4 * 0.2));
}

TEST_CASE("streaming: settings that do not fit are refused in one line") {
  CHECK(error_of({"update.fragments=4"}) ==
        "quick.toml: update.fragments = 4: expected a divisor of update.inner_steps = 6, so that one fragment is "
        "exchanged every inner_steps / fragments steps");
  CHECK(contains(error_of({"update.overlap_steps=3"}), "expected less than inner_steps / fragments = 3"));
  CHECK(contains(error_of({"update.fragments=6", "update.overlap_steps=0"}), "the model has 3 layers"));
  CHECK(contains(error_of({"compression.method=topk", "compression.bucket=model"}), "makes it one bucket"));
  CHECK(contains(error_of({"logging.dump_gradients=[3]"}), "logging.dump_gradients"));
  CHECK(contains(error_of({"update.mix=2"}), "update.mix"));
  CHECK(error_of({}).empty());
}

TEST_CASE("streaming: the plan and the start-up line know fragments") {
  const RunSpec config = streaming_config();
  const RunPlan plan = plan_run(config, make_network(config), 2);
  const std::string text = describe(plan, config, 2);
  CHECK(config.update.describe_period() == ", one of 2 fragments in 3 steps behind 2 of them");
  CHECK(contains(text, "one of 2 fragments in 3 steps: "));
  CHECK(contains(text, "fragment 1"));
  CHECK(contains(text, "overlap: 2 such steps hide the largest fragment at "));
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
