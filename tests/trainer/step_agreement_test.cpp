// SPDX-License-Identifier: MIT
#include "exchange/step_agreement.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "comm/agreement.h"
#include "core/file.h"
#include "core/rng.h"
#include "tests/exchange/combinations.h"
#include "tests/support/stop_signal.h"
#include "tests/trainer/quick_run.h"
#include "trainer/run/signals.h"
#include "trainer/run/training.h"

namespace dragonn::trainer::testing {
namespace {

using namespace exchange::testing;

using Json = nlohmann::json;
using Overrides = std::vector<std::string>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint64_t rounds(int world_size) {
  return static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(world_size - 1)));
}

/// Returns the words that the ranks agree on, by rank, if `speaker` has something to say and the others have not.
std::vector<exchange::StepWord> agreed(int world_size, int speaker, const exchange::StepWord& said) {
  std::vector<exchange::StepWord> words(static_cast<std::size_t>(world_size));
  comm::run_local(world_size, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    const exchange::StepWord mine = communicator.rank() == speaker ? said : exchange::StepWord{};
    words[static_cast<std::size_t>(communicator.rank())] = exchange::reduce_step_word(communicator, mine);
    const comm::Traffic& moved = communicator.traffic()[comm::Phase::kControl];
    if (moved.messages_sent != rounds(world_size) || moved.bytes_sent != 16 * rounds(world_size)) {
      throw Error("a word takes ceil(log2 P) messages of 16 bytes");
    }
  });
  return words;
}

ParameterArena two_layers() {
  ParameterArena arena;
  arena.declare("first.weight", {20, 15}, ParameterRole::kWeight);
  arena.declare("second.weight", {12, 25}, ParameterRole::kWeight);
  arena.allocate();
  return arena;
}

/// A part that is not finite, in one bucket of a rank's gradient.
struct Damage {
  const char* name;
  std::size_t first, step;  // elements of the bucket
  float value;
};
constexpr std::array kDamages{Damage{"a NaN at the end", 299, 300, kNan},       Damage{"a NaN in front", 0, 300, kNan},
                              Damage{"an infinity", 150, 300, kInfinity},       Damage{"nothing but NaN", 0, 1, kNan},
                              Damage{"nothing but infinity", 0, 1, -kInfinity}, Damage{"every third NaN", 1, 3, kNan}};

void fill_gradient(ParameterArena& arena, int rank, std::uint64_t step) {
  Rng rng(5, "damaged gradient", {static_cast<std::uint64_t>(rank), step});
  for (float& value : arena.gradients().host()) value = rng.normal();
}

/// Exchanges finite gradients once if `after_a_step`, then gradients whose second bucket is damaged on rank `culprit`,
/// or on all ranks.
void exchange_damaged(comm::Communicator& communicator, const exchange::ExchangeRules& rules, const Damage& damage,
                      int culprit, bool after_a_step) {
  ParameterArena arena = two_layers();
  exchange::GradientExchange exchange(rules, arena, communicator);
  StepTimers timers;
  const bool mine = culprit == communicator.rank() || culprit == communicator.size();
  for (std::uint64_t step = after_a_step ? 0 : 1; step < 2; ++step) {
    fill_gradient(arena, communicator.rank(), step);
    const exchange::Bucket& bucket = exchange.buckets().back();
    const std::span<float> values = arena.gradients().host().subspan(bucket.offset, bucket.size);
    const bool damaged = mine && step == 1;
    for (std::size_t i = damage.first; damaged && i < values.size(); i += damage.step) values[i] = damage.value;
    exchange.run({.step = step, .density = 0.1, .learning_rate = 0.1}, View<const float>(arena.gradients()), timers);
    exchange.commit(timers);
    if (exchange.non_finite_bucket() != (damaged ? std::optional(exchange.buckets().size() - 1) : std::nullopt)) {
      throw Error("a rank knows of its own damage, and of no other's");
    }
  }
  const exchange::StepWord word =
      exchange::reduce_step_word(communicator, {.non_finite_bucket = exchange.non_finite_bucket()});
  if (word.non_finite_bucket != exchange.buckets().size() - 1) throw Error("all ranks know of one rank's damage");
}

/// Runs all damages. @throws what a rank throws: CommError if one waits for a message that does not come.
void exchange_all_damages(const exchange::ExchangeRules& rules, int world_size) {
  comm::run_local(world_size, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    for (const Damage& damage : kDamages) {
      for (const int culprit : {0, world_size - 1, world_size}) {
        for (const bool after_a_step : {false, true}) {
          exchange_damaged(communicator, rules, damage, culprit, after_a_step);
        }
      }
    }
  });
}

exchange::ExchangeRules with_setting(const Combination& combination, const std::string& part, const std::string& name,
                                     const SettingValue& value) {
  exchange::ExchangeRules rules = rules_of(combination);
  (part == "sparsifier" ? rules.sparsifier : rules.collective).settings.set(name, value);
  return rules;
}

std::vector<Json> step_lines(const std::filesystem::path& folder) {
  std::vector<Json> steps;
  std::ifstream lines(folder / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    Json json = Json::parse(line);
    if (json.at("kind") == "step") steps.push_back(std::move(json));
  }
  return steps;
}

/// Overrides that make the parameters so large after a few steps that no further gradient is finite. Each step
/// multiplies them by about 1e8, so their products overflow some steps before they do.
Overrides diverging(Overrides more = {}) {
  more.insert(more.end(), {"compression.method=topk", "optimizer.learning_rate=1e8"});
  return more;
}

/// The end of a worker's run: its error, and whether its parameters are still numbers.
struct End {
  std::string error;
  bool finite = false;
  std::uint64_t steps = 0;
};

std::vector<End> ends_of(const RunSpec& config, int world_size) {
  log::set_level(log::Level::kError);
  const TemporaryFolder folder;
  std::vector<End> ends(static_cast<std::size_t>(world_size));
  const Job job{config, load_data(config), {folder.path()}, ""};
  std::filesystem::create_directories(folder.path());
  comm::run_local(world_size, local_options(config, world_size), [&](comm::Communicator& communicator) {
    End& end = ends[static_cast<std::size_t>(communicator.rank())];
    layers::Network network = make_network(config, *job.data.train);
    const RunPlan plan = plan_run(config, network, world_size);
    TrainingState state(config, std::move(network));
    try {
      Training(job, plan, state, communicator).train();
    } catch (const comm::CollectiveError& error) {
      end.error = error.what();
    }
    const View<const float> parameters = state.network.arena().values();
    end.finite = std::ranges::all_of(parameters.host(), [](float value) { return std::isfinite(value); });
    end.steps = state.progress.step;
  });
  return ends;
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("what one rank says in a step all ranks hear") {
  const std::vector<exchange::StepWord> said{{},
                                             {.stop = true},
                                             {.skip = true},
                                             {.stop = true, .skip = true},
                                             {.non_finite_bucket = 0},
                                             {.non_finite_bucket = 7},
                                             {.stop = true, .non_finite_bucket = 1 << 20}};
  for (const int world_size : {1, 2, 3, 5, 7, 8, 16}) {
    for (const int speaker : {0, world_size / 2, world_size - 1}) {
      for (const exchange::StepWord& word : said) {
        CAPTURE(world_size);
        CAPTURE(speaker);
        for (const exchange::StepWord& heard : agreed(world_size, speaker, word)) CHECK(heard == word);
      }
    }
  }
}

TEST_CASE("of several ranks' buckets the first is agreed on, and an error goes before a skipped step") {
  comm::run_local(4, {.timeout_s = 60}, [](comm::Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const exchange::StepWord first =
        exchange::reduce_step_word(communicator, {.stop = rank == 2, .non_finite_bucket = 9 - 2 * rank});
    if (first != exchange::StepWord{.stop = true, .non_finite_bucket = 3})
      throw Error("the lowest bucket, and the signal");
    exchange::StepWord mine{.skip = rank != 3};
    if (rank == 3) mine.non_finite_bucket = 5;
    if (exchange::reduce_step_word(communicator, mine) != exchange::StepWord{.non_finite_bucket = 5})
      throw Error("the bucket");
  });
}

TEST_CASE("the error of a gradient that is not finite names step and bucket") {
  const std::vector<exchange::Bucket> buckets{{.name = "first.weight"}, {.name = "second.weight"}};
  exchange::check_finite({.stop = true, .skip = true}, 12, buckets);
  CHECK_THROWS_WITH_AS(exchange::check_finite({.non_finite_bucket = 1}, 12, buckets),
                       "step 12: a worker's gradient of second.weight is not finite (NaN or infinity); lower the "
                       "learning rate, clip (train.clip), or set train.non_finite = \"skip\"",
                       comm::CollectiveError);
}

TEST_CASE("an exchange comes to its end whatever is not finite on some rank, for every combination of parts") {
  for (const Combination& combination : combinations()) {
    for (const int world_size : kDamagedWorlds) {
      CAPTURE(combination.name());
      CAPTURE(world_size);
      CHECK_NOTHROW(exchange_all_damages(rules_of(combination), world_size));
    }
  }
}

TEST_CASE("an exchange comes to its end whatever is not finite, with settings that change its messages") {
  std::vector<exchange::ExchangeRules> all{
      with_setting({"exdyna", "exdyna", "residual"}, "sparsifier", "first_delta", std::string("topk")),
      with_setting({"exdyna", "exdyna", "residual"}, "sparsifier", "force_one", true),
      with_setting({"topk", "allgather", "residual"}, "collective", "decode", std::string("dense")),
      with_setting({"dgc", "dsa", "residual"}, "collective", "switch", 0.0)};
  for (const char* mode : {"shared", "private"}) {
    for (const char* collective : {"allgather", "index_union"}) {
      all.push_back(with_setting({"randomk", collective, "residual"}, "sparsifier", "mode", std::string(mode)));
    }
  }
  for (const char* layout : {"fixed", "padded", "unpadded"}) {
    all.push_back(with_setting({"topk", "allgather", "residual"}, "collective", "layout", std::string(layout)));
  }
  for (const char* put_back : {"merger", "exact", "naive", "paper"}) {
    for (const char* sparsifier : {"topk", "dgc"}) {
      all.push_back(with_setting({sparsifier, "gtopk", "residual"}, "collective", "put_back", std::string(put_back)));
    }
  }
  for (const char* algorithm : {"ring", "rabenseifner", "native"}) {
    exchange::ExchangeRules rules = rules_of({"topk", "allgather", "residual"});
    rules.buckets.compress = false;
    rules.dense.settings.set("algorithm", std::string(algorithm));
    all.push_back(rules);
  }
  for (const exchange::ExchangeRules& rules : all) {
    for (const int world_size : kDamagedWorlds) {
      CAPTURE(rules.sparsifier.name);
      CAPTURE(rules.collective.name);
      CHECK_NOTHROW(exchange_all_damages(rules, world_size));
    }
  }
}

TEST_CASE("a gradient that is not finite ends all ranks with one error, before the parameters change") {
  for (const int world_size : {1, 3}) {
    for (const char* method : {"topk", "dense", "signsgd"}) {
      Overrides overrides = diverging();
      overrides.front() = std::string("compression.method=") + method;
      const std::vector<End> ends = ends_of(quick_config(overrides), world_size);
      CAPTURE(ends[0].error);
      CHECK(ends[0].error.starts_with(fmt::format("step {}: a worker's gradient of ", ends[0].steps + 1)));
      for (const End& end : ends) {
        CHECK(end.error == ends[0].error);
        CHECK(end.finite);
      }
    }
  }
}

TEST_CASE("a signal stops all ranks after the step that they agree on it in, with a checkpoint, in both policies") {
  for (const char* policy : {"error", "skip"}) {
    for (const int world_size : {1, 3}) {
      receive_stop_signal();
      const TemporaryFolder folder;
      const RunSpec config = quick_config({std::string("train.non_finite=") + policy});
      CHECK(quick_run(config, world_size, folder.path()).exit_code == kExitRequeue);
      CHECK(step_lines(folder.path()).size() == 1);
    }
  }
  StopSignals::install();
}

TEST_CASE("control traffic of a step grows with the logarithm of the ranks, beside the counts of a method") {
  // Three matrices are exchanged one by one, with a count of four bytes of every rank where the method has counts.
  constexpr std::uint64_t kExchanges = 3;
  const std::map<std::string, std::uint64_t> counts{{"topk", 0}, {"dgc", kExchanges}, {"dragonn", kExchanges}};
  for (const auto& [method, exchanges] : counts) {
    for (const int world_size : {2, 3, 8, 16}) {
      CAPTURE(method);
      CAPTURE(world_size);
      const TemporaryFolder folder;
      quick_run(quick_config({"compression.method=" + method, "data.train_samples=288"}), world_size, folder.path());
      const std::vector<Json> lines = step_lines(folder.path());
      REQUIRE(lines.size() == 6);
      for (const Json& line : lines) {
        double bytes = 0, messages = 0;
        for (const auto& [phase, traffic] : line.at("traffic").items()) {
          if (phase == "exchange") continue;
          bytes += traffic.at("bytes_sent").at("max").get<double>();
          messages += traffic.at("messages").at("max").get<double>();
        }
        const auto others = static_cast<std::uint64_t>(world_size - 1);
        CHECK(bytes > 0);
        CHECK(bytes <= static_cast<double>(64 * rounds(world_size) + 4 * others * exchanges));
        CHECK(messages <= static_cast<double>(rounds(world_size) * (exchanges + 1)));
      }
    }
  }
}

TEST_CASE("a step that is skipped has no density, and sends no gradient") {
  const TemporaryFolder folder;
  quick_run(quick_config(diverging({"train.non_finite=skip"})), 3, folder.path());
  const std::vector<Json> lines = step_lines(folder.path());
  REQUIRE(lines.size() == 6);
  double density = 0;
  int skipped = 0;
  for (const Json& line : lines) {
    const bool exchanged = line.at("traffic").contains("exchange");
    for (const char* key : {"density_target", "density_local", "density_global", "k", "selected"}) {
      CAPTURE(key);
      CHECK(line.contains(key) == exchanged);
    }
    density += line.value("density_local", 0.0) / 6;
    skipped += exchanged ? 0 : 1;
  }
  CHECK(skipped > 0);
  CHECK(skipped < 6);
  const Json summary = Json::parse(read_text_file(folder.path() / "summary.json"));
  CHECK(summary.at("density_mean").get<double>() == doctest::Approx(density));
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
