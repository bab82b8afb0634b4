// SPDX-License-Identifier: MIT
/// Tests of runs with a quantizer: their traffic, their reports, and their refusals.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "comm/local/local.h"
#include "core/file.h"
#include "core/rng.h"
#include "exchange/exchange_plan.h"
#include "exchange/step_agreement.h"
#include "tests/exchange/combinations.h"
#include "tests/trainer/quick_run.h"
#include "trainer/run/plan.h"

namespace dragonn::trainer::testing {
namespace {

using namespace exchange::testing;

using Json = nlohmann::json;

constexpr std::size_t kNumel = 1001;

ParameterArena one_tensor() {
  ParameterArena arena;
  arena.declare("weight", {kNumel, 1}, ParameterRole::kWeight);
  arena.allocate();
  return arena;
}

exchange::ExchangeRules quantized_rules(const std::string& quantizer) {
  exchange::ExchangeRules rules = rules_of({"none", exchange::kCodeCollective, "none", quantizer});
  rules.seed = 3;
  return rules;
}

/// The error of the config with these overrides, or "".
std::string refusal(const std::vector<std::string>& overrides) {
  try {
    quick_config(overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::vector<Json> step_lines(const std::filesystem::path& folder) {
  std::vector<Json> lines;
  std::istringstream text(read_text_file(folder / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    const Json json = Json::parse(line);
    if (json["kind"] == "step") lines.push_back(json);
  }
  return lines;
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("every rank sends its code to every other: the bytes of the formulas, no header") {
  const std::size_t words = (kNumel + 31) / 32 + 1, groups = (kNumel + 127) / 128;
  for (const auto& [name, code_bytes] : {std::pair{"signsgd", 4 * words}, std::pair{"qsgd", kNumel + 4 * groups}}) {
    for (int world_size : kWorlds) {
      CAPTURE(name);
      CAPTURE(world_size);
      const exchange::ExchangeRules rules = quantized_rules(name);
      const std::size_t expected = code_bytes * static_cast<std::size_t>(world_size - 1);
      CHECK(exchange::plan_exchange(rules, one_tensor(), 0.01, world_size).cost().bytes_sent ==
            static_cast<double>(expected));
      std::vector<comm::Traffic> payload(static_cast<std::size_t>(world_size)), header(payload.size());
      comm::run_local(world_size, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
        ParameterArena arena = one_tensor();
        exchange::GradientExchange exchange(rules, arena, communicator);
        StepTimers timers;
        const std::vector<float> gradient(kNumel, 1.0f);
        exchange.run({.step = 0, .density = 1.0}, View<const float>(std::span(gradient)), timers);
        exchange.commit(timers);
        const auto rank = static_cast<std::size_t>(communicator.rank());
        payload[rank] = communicator.traffic()[comm::Phase::kExchange];
        header[rank] = communicator.traffic()[comm::Phase::kHeader];
      });
      for (const comm::Traffic& traffic : payload) {
        CHECK(traffic.bytes_sent == expected);
        CHECK(traffic.bytes_received == expected);
      }
      for (const comm::Traffic& traffic : header) CHECK(traffic == comm::Traffic{});
    }
  }
}

TEST_CASE("the exchanged sum is the sum of what the ranks' quantizers send, rounding keyed by rank") {
  constexpr int kWorld = 3;
  for (const char* name : {"signsgd", "qsgd"}) {
    CAPTURE(name);
    std::vector<std::vector<float>> sums(kWorld), alone(kWorld);
    const auto gradient_of = [](int rank) {
      std::vector<float> gradient(kNumel);
      Rng rng(9, "quantizer test", {static_cast<std::uint64_t>(rank)});
      for (float& value : gradient) value = rng.normal();
      return gradient;
    };
    comm::run_local(kWorld, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
      ParameterArena arena = one_tensor();
      exchange::GradientExchange exchange(quantized_rules(name), arena, communicator);
      StepTimers timers;
      const std::vector<float> gradient = gradient_of(communicator.rank());
      exchange.run({.step = 0, .density = 1.0}, View<const float>(std::span(gradient)), timers);
      exchange.commit(timers);
      const auto sum = exchange.reduction(0).dense_sum.host();
      sums[static_cast<std::size_t>(communicator.rank())].assign(sum.begin(), sum.end());
    });
    std::vector<float> expected(kNumel, 0.0f);
    const auto& entry = Registry<codec::QuantizerEntry>::instance().at(name);
    for (int rank = 0; rank < kWorld; ++rank) {
      const std::vector<float> gradient = gradient_of(rank);
      const auto quantizer = entry.make(Settings(entry.settings));
      std::vector<std::byte> code(quantizer->code_bytes(kNumel));
      kernels::PassResult pass;
      const View<const float> acc{std::span<const float>(gradient)};
      kernels::examine(quantizer->plan(), acc, pass);
      quantizer->encode(acc, {.seed = 3, .step = 0, .rank = rank, .bucket = 0, .pass = &pass},
                        std::span<std::byte>(code));
      std::vector<float> decoded(kNumel);
      quantizer->sum(std::span<const std::byte>(code), {}, std::span<float>(decoded));
      for (std::size_t i = 0; i < kNumel; ++i) expected[i] += decoded[i];
    }
    for (const auto& sum : sums) CHECK(sum == expected);
  }
}

TEST_CASE("a NaN of one rank is told to all ranks, whatever the quantizer and the place") {
  for (const char* name : {"signsgd", "qsgd"}) {
    for (const int culprit : {0, 2}) {
      CAPTURE(name);
      CAPTURE(culprit);
      int told = 0;
      comm::run_local(3, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
        ParameterArena arena = one_tensor();
        exchange::GradientExchange exchange(quantized_rules(name), arena, communicator);
        StepTimers timers;
        std::vector<float> gradient(kNumel, 1.0f);
        if (communicator.rank() == culprit) gradient[777] = std::nanf("");
        exchange.run({.step = 0, .density = 1.0}, View<const float>(std::span(gradient)), timers);
        exchange.commit(timers);
        const bool mine = exchange.non_finite_bucket().has_value();
        const exchange::StepWord agreed =
            exchange::reduce_step_word(communicator, {.non_finite_bucket = exchange.non_finite_bucket()});
        std::uint64_t failed = agreed.non_finite_bucket == 0 && mine == (communicator.rank() == culprit) ? 1 : 0;
        communicator.allreduce_sum(std::span<std::uint64_t>(&failed, 1));
        if (communicator.rank() == 0) told = static_cast<int>(failed);
      });
      CHECK(told == 3);
    }
  }
}

TEST_CASE("a quantizer has no density: none changes the run, and no line speaks of one") {
  for (const char* name : {"signsgd", "qsgd"}) {
    CAPTURE(name);
    const std::string method = fmt::format("compression.method={}", name);
    const TemporaryFolder first, second;
    const QuickResult a = quick_run(quick_config({method}), 3, first.path());
    const QuickResult b = quick_run(
        quick_config({method, "compression.density=1.0", "compression.density_schedule=dgc"}), 3, second.path());
    CHECK(a.parameters == b.parameters);
    const std::vector<Json> lines = step_lines(first.path());
    REQUIRE_FALSE(lines.empty());
    for (const Json& line : lines) {
      for (const char* key : {"density_target", "density_local", "density_global", "selected", "threshold"}) {
        CHECK_FALSE(line.contains(key));
      }
      CHECK(line.contains("residual_norm"));
      CHECK(line["bytes_sent"]["mean"] > 0);
      CHECK(line["seconds"].contains("decode"));
    }
  }
}

TEST_CASE("a quantizer is refused with parts that it does not go with, and what fits is listed") {
  const auto contains = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(
      contains(refusal({"compression.method=qsgd", "compression.memory=residual"}), "no error feedback; valid: none"));
  CHECK(contains(refusal({"compression.method=qsgd", "compression.memory=momentum_correction"}), "valid: none"));
  CHECK(contains(refusal({"compression.method=signsgd", "compression.collective=dense"}),
                 "quantizer 'signsgd' does not go with collective 'dense'"));
  CHECK(contains(refusal({"compression.method=signsgd", "compression.sparsifier=topk"}),
                 "expected a sparsifier and quantizer = \"none\", or a quantizer"));
  CHECK(contains(refusal({"compression.method=topk", "compression.quantizer=qsgd"}), "does not go with sparsifier"));
  CHECK(contains(refusal({"compression.method=dense", "compression.quantizer=qsgd"}), "or the method \"qsgd\""));
  CHECK(contains(refusal({"compression.method=signsgd", "compression.quantizer=none"}), "expected a sparsifier and"));
  CHECK(contains(refusal({"compression.qsgd.levels=128"}), "expected integer in [1, 127]"));
  for (const char* memory : {"none", "residual", "momentum_correction"}) {
    CHECK(refusal({"compression.method=signsgd", fmt::format("compression.memory={}", memory)}).empty());
  }
}

TEST_CASE("a quantizer's name is a method, and --set swaps it with any other") {
  const RunSpec signsgd = quick_config({"compression.method=signsgd"});
  CHECK(signsgd.compression.sparsifier.name == "none");
  CHECK(signsgd.compression.quantizer.name == "signsgd");
  CHECK(signsgd.compression.collective.name == exchange::kCodeCollective);
  CHECK(signsgd.compression.memory.name == "residual");
  CHECK(quick_config({"compression.method=qsgd"}).compression.memory.name == "none");
  CHECK(quick_config({"compression.method=qsgd", "compression.qsgd.group=64"})
            .compression.quantizer.settings.integer("group") == 64);
  const std::vector<std::string> methods{"dense", "topk", "signsgd", "qsgd"};
  for (const std::string& from : methods) {
    const std::string written = to_toml(quick_config({"compression.method=" + from}));
    for (const std::string& to : methods) {
      CAPTURE(from);
      CAPTURE(to);
      const std::vector<std::string> swap{"compression.method=" + to};
      CHECK(to_toml(parse_config(written, "written", swap)) == to_toml(quick_config(swap)));
    }
  }
}

TEST_CASE("the dry run shows quantized buckets and their bytes") {
  const RunSpec config = quick_config({"compression.method=signsgd"});
  const RunPlan plan = plan_run(config, make_network(config, Shape{6, 6, 1}, 4), 3);
  double expected = 0;
  for (const exchange::BucketPlan& planned : plan.exchange.buckets) {
    const bool quantized = planned.form == exchange::ExchangeForm::kQuantized;
    CHECK(quantized == planned.bucket.sparse);
    const std::size_t words = (planned.bucket.size + 31) / 32 + 1;
    if (quantized) CHECK(planned.cost.bytes_sent == 2.0 * 4.0 * static_cast<double>(words));
    expected += planned.cost.bytes_sent;
  }
  CHECK(plan.exchange.cost().bytes_sent == expected);
  const std::string text = describe(plan, config, 3);
  CHECK(text.find("exchange: signsgd (quantizer signsgd, collective allgather, memory residual)") != std::string::npos);
  CHECK(text.find("quantized") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
