// SPDX-License-Identifier: MIT
/// Checkpoints of P workers on other numbers of them: no mass is lost, every part has a rule, runs go on.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "comm/local/local.h"
#include "comm/sparse/sparse_collective.h"
#include "core/file.h"
#include "core/rng.h"
#include "tests/exchange/combinations.h"
#include "tests/trainer/quick_run.h"
#include "trainer/config/config.h"
#include "trainer/run/run_position.h"

namespace dragonn::trainer::testing {
namespace {

using namespace exchange::testing;

namespace fs = std::filesystem;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const std::vector<int> kResizeWorlds{1, 3, 4};
#else
const std::vector<int> kResizeWorlds{1, 2, 3, 4, 8};
#endif
constexpr std::uint64_t kSteps = 3;

ParameterArena small_arena() {
  ParameterArena arena;
  arena.declare("a.weight", {11, 7}, ParameterRole::kWeight);
  arena.declare("a.bias", {7}, ParameterRole::kBias);
  arena.declare("b.weight", {7, 5}, ParameterRole::kWeight);
  arena.allocate();
  return arena;
}

/// The rules of a combination with dyadic factors, which keep sums of integers exact.
exchange::ExchangeRules integer_rules(const Combination& combination) {
  exchange::ExchangeRules rules = rules_of(combination);
  rules.momentum = 0.5f;
  for (const char* share : {"beta", "eta"}) {
    if (rules.memory.settings.contains(share)) rules.memory.settings.set(share, 0.5);
  }
  rules.buckets.include_vectors = true;
  return rules;
}

/// Runs steps on small multiples of 8, many of them zero: halving them a few times leaves integers.
void run_steps(exchange::GradientExchange& exchange, std::size_t size, int rank, std::uint64_t from, std::uint64_t to) {
  std::vector<float> gradient(size);
  StepTimers timers;
  for (std::uint64_t step = from; step < to; ++step) {
    Rng rng(5, "resize test", {step, static_cast<std::uint64_t>(rank)});
    for (float& value : gradient) value = rng.below(3) == 0 ? 0.0f : 8 * (static_cast<float>(rng.below(17)) - 8.0f);
    exchange.run({.step = step, .density = 0.1, .learning_rate = 0.1}, View<const float>(gradient), timers);
    exchange.commit(timers);
  }
}

/// The state of each rank of a group, after some steps.
std::vector<Archive> saved_states(const exchange::ExchangeRules& rules, int world_size) {
  std::vector<Archive> archives(static_cast<std::size_t>(world_size));
  comm::run_local(world_size, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    ParameterArena arena = small_arena();
    exchange::GradientExchange exchange(rules, arena, communicator);
    run_steps(exchange, arena.size(), communicator.rank(), 0, kSteps);
    exchange.save(archives[static_cast<std::size_t>(communicator.rank())]);
  });
  return archives;
}

/// Returns what becomes of it in a group of another size. One of the sizes goes on training, which must not fail.
std::vector<Archive> taken_over(const exchange::ExchangeRules& rules, const std::vector<Archive>& saved,
                                int world_size) {
  std::vector<Archive> archives(static_cast<std::size_t>(world_size));
  const int workers = static_cast<int>(saved.size());
  comm::run_local(world_size, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    ParameterArena arena = small_arena();
    exchange::GradientExchange exchange(rules, arena, communicator);
    const int rank = communicator.rank();
    for (const exchange::RankToTake& from : exchange::ranks_to_take(rank, world_size, workers)) {
      exchange.reshard_from(saved[static_cast<std::size_t>(from.rank)], from.what);
    }
    exchange.save(archives[static_cast<std::size_t>(rank)]);
    if (world_size == 3) run_steps(exchange, arena.size(), rank, kSteps, kSteps + 2);
  });
  return archives;
}

/// Returns whether a field is of the state that goes on from the mean estimate of all ranks.
bool goes_on_from_estimate(const Archive& archive, const std::string& name) {
  return archive.contains(name.substr(0, name.rfind('/')) + "/estimate") && !name.ends_with("/residual") &&
         !name.ends_with("/error");
}

/// The sums over ranks of all residuals and momenta, by field and element.
std::map<std::string, std::vector<double>> mass(const std::vector<Archive>& archives) {
  std::map<std::string, std::vector<double>> sums;
  for (const Archive& archive : archives) {
    for (const auto& [name, bytes] : archive.fields()) {
      if (name.find("/memory/") == std::string::npos || goes_on_from_estimate(archive, name)) continue;
      const std::vector<float> values = archive.get_vector<float>(name);
      std::vector<double>& sum = sums[name];
      sum.resize(values.size());
      std::ranges::transform(values, sum, sum.begin(), [](float value, double before) { return before + value; });
    }
  }
  return sums;
}

bool all_integers(const std::map<std::string, std::vector<double>>& sums) {
  return std::ranges::all_of(sums, [](const auto& field) {
    return std::ranges::all_of(field.second, [](double value) { return value == std::floor(value); });
  });
}

/// Checks that a part's rule is that of a part without state if and only if it saves none.
template <class Entry, class Part>
void check_rule(const Entry& entry, const Part& part) {
  CAPTURE(exchange::part_name(entry));
  Archive archive;
  part.save(archive, "state/");
  CHECK(archive.fields().empty() == (entry.resize.kind == OnResize::kStateless));
  CHECK(entry.resize.how.empty() == (entry.resize.kind == OnResize::kStateless));
}

/// A run of 1,536 samples an epoch, whose loss falls steadily.
RunSpec steady_config(const std::string& method, std::vector<std::string> overrides = {}) {
  for (const char* fixed :
       {"data.train_samples=1536", "train.batch_size=8", "train.max_steps=0", "optimizer.learning_rate=0.02",
        "compression.density=0.05", "model.hidden=[24, 16]", "checkpoint.keep=100"}) {
    overrides.emplace_back(fixed);
  }
  overrides.push_back("compression.method=" + method);
  return quick_config(overrides);
}

/// Returns the mean loss of `count` steps behind `step`, as metrics.jsonl has it.
double mean_loss(const fs::path& folder, std::uint64_t step, std::uint64_t count) {
  const std::string text = read_text_file(folder / "metrics.jsonl");
  double sum = 0;
  for (std::uint64_t i = step + 1; i <= step + count; ++i) {
    const auto line = text.find(fmt::format("\"kind\":\"step\",\"step\":{},", i));
    REQUIRE(line != std::string::npos);
    sum += std::stod(text.substr(text.find("\"loss\":", line) + 7));
  }
  return sum / static_cast<double>(count);
}

fs::path checkpoint_of(const TemporaryFolder& folder, std::uint64_t step) {
  return folder.path() / "checkpoints" / CheckpointStore::folder_name(step);
}

/// Checks that a run goes on with another number of workers without a jump of its loss: on the same samples, those of
/// 10 steps at least, its mean is at most 1.3 times that of the uninterrupted run. With more workers there are fewer
/// updates for as many samples, which alone makes it up to 1.2 times as large here.
void check_loss_goes_on(const std::string& method, int from, const std::vector<int>& worlds) {
  const std::uint64_t stop = 768 / 8 / static_cast<std::uint64_t>(from);
  const TemporaryFolder whole;
  quick_run(steady_config(method, {fmt::format("checkpoint.every_steps={}", stop)}), from, whole.path());
  for (const int to : worlds) {
    CAPTURE(method);
    CAPTURE(from);
    CAPTURE(to);
    const auto both = static_cast<std::uint64_t>(std::lcm(from, to));
    const std::uint64_t whole_steps = both / static_cast<std::uint64_t>(from);
    const std::uint64_t steps = both / static_cast<std::uint64_t>(to);
    const std::uint64_t times = (9 + std::min(whole_steps, steps)) / std::min(whole_steps, steps);
    const TemporaryFolder rest;
    quick_run(steady_config(method, {fmt::format("train.max_steps={}", stop + times * steps)}), to, rest.path(),
              checkpoint_of(whole, stop).string());
    const double expected = mean_loss(whole.path(), stop, times * whole_steps);
    const double seen = mean_loss(rest.path(), stop, times * steps);
    CHECK(seen <= 1.3 * expected);
    CHECK(seen >= 0.6 * expected);
  }
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("residuals and momenta keep their sums, exactly, from any number of workers to any other") {
  std::size_t checked = 0;
  for (const Combination& combination : pairwise_combinations()) {
    const exchange::ExchangeRules rules = integer_rules(combination);
    for (const int from : kResizeWorlds) {
      const std::vector<Archive> saved = saved_states(rules, from);
      const auto before = mass(saved);
      for (const int to : kResizeWorlds) {
        CAPTURE(combination.name());
        CAPTURE(from);
        CAPTURE(to);
        const auto after = mass(taken_over(rules, saved, to));
        if (!all_integers(before)) continue;  // quantized, or rescaled
        REQUIRE(after == before);
        ++checked;
      }
    }
  }
  CHECK(checked >= 10 * kResizeWorlds.size() * kResizeWorlds.size());
}

TEST_CASE("estimates go on from their mean on any number of workers, and add up to what the optimizer takes") {
  for (const char* memory : {"ef21", "ef21_sgdm", "econtrol"}) {
    const exchange::ExchangeRules rules = integer_rules({"topk", "allgather", memory});
    for (const int from : kResizeWorlds) {
      const std::vector<Archive> saved = saved_states(rules, from);
      for (const int to : kResizeWorlds) {
        const std::vector<Archive> taken = taken_over(rules, saved, to);
        for (const auto& [name, bytes] : saved.front().fields()) {
          if (!name.ends_with("/sum")) continue;
          CAPTURE(name);
          const std::string prefix = name.substr(0, name.rfind('/') + 1);
          const std::vector<float> before = saved.front().get_vector<float>(name);
          CHECK(std::ranges::any_of(before, [](float value) { return value != 0; }));
          for (const Archive& archive : taken) {
            const std::vector<float> estimate = archive.get_vector<float>(prefix + "estimate");
            const std::vector<float> sum = archive.get_vector<float>(name);
            for (std::size_t i = 0; i < before.size(); ++i) {
              CHECK(estimate[i] == doctest::Approx(before[i] / static_cast<float>(from)));
              CHECK(sum[i] == static_cast<float>(to) * estimate[i]);
            }
            if (archive.contains(prefix + "momentum"))
              CHECK(archive.get_vector<float>(prefix + "momentum") == estimate);
          }
        }
      }
    }
  }
}

TEST_CASE("every memory adds up what it saved, to the last integer") {
  for (const std::string& name : Registry<compress::MemoryEntry>::instance().names()) {
    CAPTURE(name);
    const auto& entry = Registry<compress::MemoryEntry>::instance().at(name);
    const auto make = [&] { return entry.make(Settings(entry.settings), 6, 0.5f, false, Device{}); };
    const auto mine = make(), other = make();
    const std::vector<float> a{1, -2, 3, 0, 5, 0}, b{4, 2, -7, 1, 0, 0};
    mine->compensate({}, View<const float>(a), 1.0f);
    other->compensate({}, View<const float>(b), 1.0f);
    Archive before, saved, both;
    mine->save(before, "m/");
    other->save(saved, "m/");
    mine->add(saved, "m/");
    mine->save(both, "m/");
    CHECK(both.fields().size() == saved.fields().size());
    for (const auto& [field, bytes] : both.fields()) {
      const std::vector<float> sum = both.get_vector<float>(field);
      const std::vector<float> first = before.get_vector<float>(field), second = saved.get_vector<float>(field);
      const float added = goes_on_from_estimate(both, field) ? 0.0f : 1.0f;
      for (std::size_t i = 0; i < sum.size(); ++i) CHECK(sum[i] == first[i] + added * second[i]);
    }
  }
}

TEST_CASE("every part that saves state has a rule for another number of workers") {
  for (const std::string& name : Registry<compress::MemoryEntry>::instance().names()) {
    const auto& entry = Registry<compress::MemoryEntry>::instance().at(name);
    check_rule(entry, *entry.make(Settings(entry.settings), 100, 0.5f, false, Device{}));
  }
  for (const std::string& name : Registry<compress::SparsifierEntry>::instance().names()) {
    const auto& entry = Registry<compress::SparsifierEntry>::instance().at(name);
    check_rule(entry, *entry.make(Settings(entry.settings), 100, Device{}));
  }
  for (const std::string& name : Registry<comm::SparseCollectiveEntry>::instance().names()) {
    const auto& entry = Registry<comm::SparseCollectiveEntry>::instance().at(name);
    check_rule(entry, *entry.make(Settings(entry.settings), 100));
  }
}

TEST_CASE("a part that refuses, or saves state without a rule, is refused by name") {
  Archive archive;
  archive.put("bucket0/sparsifier/threshold", 1.0);
  const auto takes = [&](const ResizeRule& rule, const std::string& prefix) {
    return exchange::reshards("sparsifier 'own'", rule, archive, prefix);
  };
  CHECK(takes({OnResize::kReshard, "stays"}, "bucket0/sparsifier/"));
  CHECK_FALSE(takes({OnResize::kRestart, "restarts"}, "bucket0/sparsifier/"));
  CHECK_FALSE(takes({}, "bucket1/sparsifier/"));
  CHECK_THROWS_WITH_AS(takes({}, "bucket0/sparsifier/"),
                       doctest::Contains("sparsifier 'own' has saved state and no rule"), ConfigError);
  CHECK_THROWS_WITH_AS(takes({OnResize::kRefuse, "its table has a row per worker"}, "bucket0/sparsifier/"),
                       doctest::Contains("does not resume with another number of workers: its table"), ConfigError);
}

TEST_CASE("every saved rank is read by one rank, which adds up its residual, whatever the numbers") {
  for (const int from : kResizeWorlds) {
    for (const int to : kResizeWorlds) {
      std::vector<int> added(static_cast<std::size_t>(from));
      for (int rank = 0; rank < to; ++rank) {
        int methods = 0;
        for (const exchange::RankToTake& taken : exchange::ranks_to_take(rank, to, from)) {
          added[static_cast<std::size_t>(taken.rank)] += taken.what.memories ? 1 : 0;
          methods += taken.what.methods ? 1 : 0;
        }
        CHECK(methods == 1);
      }
      CHECK(added == std::vector<int>(static_cast<std::size_t>(from), 1));
    }
  }
}

TEST_CASE("the loss goes on without a jump on another number of workers") {
  check_loss_goes_on("topk", 8, {1, 3});
  check_loss_goes_on("dgc", 3, {8, 2});
  check_loss_goes_on("oktopk", 4, {3, 8});
  check_loss_goes_on("exdyna", 2, {3});
}

// Every pair of numbers and every method: 4 minutes. Run by hand: test_trainer -tc='*by hand*' --no-skip.
TEST_CASE("by hand: the loss of every method goes on without a jump on any number of workers" * doctest::skip()) {
  for (const std::string& method : method_names()) {
    for (const int from : kResizeWorlds) check_loss_goes_on(method, from, kResizeWorlds);
  }
}

TEST_CASE("a run on another number of workers resumes invisibly again, also within the same epoch") {
  for (const char* method : {"topk", "oktopk", "exdyna", "sidco_e", "dgc"}) {
    CAPTURE(method);
    const std::vector<std::string> often{"checkpoint.every_steps=1", "checkpoint.keep=100",
                                         fmt::format("compression.method={}", method)};
    const TemporaryFolder first, second, third;
    quick_run(quick_config(often), 4, first.path());  // steps of 12 samples, 8 in an epoch
    const RunSpec longer = [&] {
      std::vector<std::string> overrides = often;
      overrides.emplace_back("train.max_steps=14");
      return quick_config(overrides);
    }();
    const QuickResult whole = quick_run(longer, 3, second.path(), checkpoint_of(first, 3).string());
    for (const std::uint64_t step : {4, 10}) {
      const TemporaryFolder rest;
      CHECK(quick_run(longer, 3, rest.path(), checkpoint_of(second, step).string()).parameters == whole.parameters);
    }
    quick_run(longer, 2, third.path(), checkpoint_of(second, 5).string());
    const Archive last = CheckpointStore::read_model(checkpoint_of(third, 6));
    CHECK(CheckpointStore::workers(last) == 2);
    CHECK(load_position(last).samples() == 3 * 12 + 2 * 9 + 6);
  }
}

TEST_CASE("another batch size on as many workers goes on behind the samples that are done") {
  const TemporaryFolder whole, rest;
  quick_run(quick_config({"compression.method=topk", "checkpoint.every_steps=5", "checkpoint.keep=9"}), 2,
            whole.path());
  const RunSpec larger = quick_config({"compression.method=topk", "train.batch_size=4", "train.max_steps=8"});
  quick_run(larger, 2, rest.path(), checkpoint_of(whole, 5).string());
  const DataPosition position = load_position(CheckpointStore::read_model(checkpoint_of(rest, 8)));
  CHECK(position.parts == std::vector<data::EpochPart>{{6, 5}, {8, 3}});
}

TEST_CASE("a run ends after its epochs, on any number of workers") {
  const std::vector<std::string> overrides{"train.max_steps=0", "train.eval_every_epochs=1", "checkpoint.every_steps=5",
                                           "checkpoint.keep=100", "schedule.name=cosine"};
  const TemporaryFolder whole;
  quick_run(quick_config(overrides), 4, whole.path());  // 2 epochs of 8 steps
  for (const int world_size : {1, 2, 3, 8}) {
    CAPTURE(world_size);
    const TemporaryFolder rest;
    quick_run(quick_config(overrides), world_size, rest.path(), checkpoint_of(whole, 5).string());
    // 36 samples of the first epoch are left, and 96 in the second.
    const int per_step = 3 * world_size;
    const Archive last = CheckpointStore::read_model(CheckpointStore(rest.path() / "checkpoints").list().back());
    CHECK(last.get<std::uint64_t>("progress/step") == static_cast<std::uint64_t>(5 + 36 / per_step + 96 / per_step));
    CHECK(last.get<double>("progress/last/epoch") == 2.0);
    const auto samples = static_cast<std::uint64_t>(60 + (36 / per_step + 96 / per_step) * per_step);
    CHECK(last.get<std::uint64_t>("progress/samples") == samples);
  }
}

TEST_CASE("a missing or a foreign rank's file is refused by name, on any number of workers") {
  const RunSpec config = quick_config({"compression.method=topk", "checkpoint.every_steps=3", "checkpoint.keep=100"});
  const TemporaryFolder whole, rest;
  quick_run(config, 4, whole.path());
  const fs::path checkpoint = checkpoint_of(whole, 3);
  fs::rename(checkpoint / "rank-0003.safetensors", whole.path() / "away");
  for (const int world_size : {1, 2, 4}) {
    CHECK_THROWS_WITH(quick_run(config, world_size, rest.path(), checkpoint.string()),
                      doctest::Contains("rank-0003.safetensors is missing"));
  }
  fs::copy_file(checkpoint / "rank-0001.safetensors", checkpoint / "rank-0003.safetensors");
  CHECK_THROWS_WITH(quick_run(config, 2, rest.path(), checkpoint.string()),
                    doctest::Contains("rank-0003.safetensors was saved by rank 1"));
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
