// SPDX-License-Identifier: MIT
/// Tests of plans of an exchange against the counters of exchanges: every sparsifier x collective that fit, with the
/// settings that change what is sent.
#include "exchange/exchange_plan.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include <doctest/doctest.h>

#include "comm/agreement.h"
#include "comm/local/local.h"
#include "comm/sparse/exchange_cost.h"
#include "core/rng.h"
#include "tests/exchange/combinations.h"

namespace dragonn::exchange::testing {
namespace {

constexpr std::int64_t kNumel = 4096;
constexpr double kDensity = 0.05;
// Before the last one methods that adapt find their thresholds, and oktopk computes the one that it reuses.
constexpr std::uint64_t kSteps = 4;
/// A network on which only messages take time, whatever their size.
constexpr comm::NetworkModel kLatencyAlone{.latency_seconds = 1, .bytes_per_second = 1e30};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const std::vector<int> kPredictedWorlds{2, 3};
#else
const std::vector<int> kPredictedWorlds{2, 3, 5, 8, 16};
#endif

using SettingChoices = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// The settings of collectives that change what is sent. Whether lists are balanced depends on chance.
const std::map<std::string, SettingChoices> kCollectiveChoices{
    {"allgather", {{"layout", {"auto", "fixed", "padded", "unpadded"}}}},
    {"gtopk", {{"put_back", {"merger", "exact", "naive", "paper"}}}},
    {"dsa", {{"switch", {"0", "0.5", "1"}}}},
    {"oktopk", {{"balance", {"never"}}}}};

struct Case {
  ExchangeRules rules;
  std::string name;
};

void set(Settings& settings, const std::string& key, const std::string& text) {
  if (key == "switch") {
    settings.set(key, std::stod(text));
  } else {
    settings.set(key, text);
  }
}

void add_collective_choices(const Case& base, std::vector<Case>& cases) {
  const auto found = kCollectiveChoices.find(base.rules.collective.name);
  if (found == kCollectiveChoices.end()) return cases.push_back(base);
  for (const auto& [key, values] : found->second) {
    for (const std::string& value : values) {
      if (value == "fixed" && !selection_traits(base.rules.sparsifier).fits_k_slots()) continue;
      Case chosen = base;
      set(chosen.rules.collective.settings, key, value);
      chosen.name += " " + value;
      cases.push_back(std::move(chosen));
    }
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const std::string& sparsifier : Registry<compress::SparsifierEntry>::instance().names()) {
    for (const std::string& collective : Registry<comm::SparseCollectiveEntry>::instance().names()) {
      for (const bool shared : {true, false}) {
        const bool has_mode = sparsifier == "randomk";
        if (!has_mode && !shared) continue;
        Case base{rules_of({sparsifier, collective, "none"}), sparsifier + " x " + collective};
        if (has_mode) base.rules.sparsifier.settings.set("mode", std::string(shared ? "shared" : "private"));
        try {
          check_rules(base.rules);
        } catch (const ConfigError&) {
          continue;
        }
        add_collective_choices(base, cases);
      }
    }
  }
  return cases;
}

ParameterArena one_tensor() {
  ParameterArena arena;
  arena.declare("weight", {kNumel, 1}, ParameterRole::kWeight);
  arena.allocate();
  return arena;
}

/// The last step of an exchange.
struct Observed {
  double bytes = 0, header_bytes = 0;  ///< sent by a rank, mean
  double messages = 0;                 ///< that follow one after the other
  comm::ExchangeSizes sizes;
};

class Observation {
 public:
  Observation(const ExchangeRules& rules, int world) : rules_(rules), world_(world) {}

  Observed run() {
    comm::run_local(world_, {.timeout_s = 60, .network = kLatencyAlone, .compute = comm::Compute::kZero},
                    [&](comm::Communicator& communicator) { run_rank(communicator); });
    return observed_;
  }

 private:
  void run_rank(comm::Communicator& communicator) {
    ParameterArena arena = one_tensor();
    GradientExchange exchange(rules_, arena, communicator);
    std::vector<float> gradient(kNumel);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      Rng rng(5, "plan", {step, static_cast<std::uint64_t>(communicator.rank())});
      for (float& value : gradient) value = rng.normal();
      {
        const ClockPause pause(communicator.clock());
        communicator.clock().advance_to(comm::latest_moment(communicator));
      }
      const comm::PhaseTraffic before = communicator.traffic().by_phase();
      const double start = communicator.now();
      StepTimers timers;
      exchange.run({.step = step, .density = kDensity, .learning_rate = 1}, View<const float>(std::span(gradient)),
                   timers);
      exchange.commit(timers);
      if (step + 1 == kSteps) record(communicator, exchange, before, communicator.now() - start);
    }
  }

  void record(comm::Communicator& communicator, const GradientExchange& exchange, const comm::PhaseTraffic& before,
              double seconds) {
    const comm::PhaseTraffic traffic = communicator.traffic().by_phase() - before;
    const auto sent = [&](comm::Phase phase) {
      return static_cast<double>(traffic[static_cast<std::size_t>(phase)].bytes_sent) / world_;
    };
    const ExchangeCounts& counts = exchange.counts();
    const std::lock_guard lock(mutex_);
    observed_.bytes += sent(comm::Phase::kExchange);
    observed_.header_bytes += sent(comm::Phase::kHeader);
    observed_.messages = std::max(observed_.messages, seconds);
    if (communicator.rank() != 0) return;
    observed_.sizes = {.numel = kNumel,
                       .k = target_of(rules_, exchange.buckets().front(), kDensity),
                       .ranks = world_,
                       .largest = static_cast<double>(std::ranges::max(counts.selected)),
                       .global = static_cast<double>(counts.global),
                       .selection = selection_traits(rules_.sparsifier),
                       .computes_threshold = false};
    for (const std::uint64_t count : counts.selected) {
      observed_.sizes.selected += static_cast<double>(count) / world_;
    }
  }

  const ExchangeRules& rules_;
  int world_;
  std::mutex mutex_;
  Observed observed_;
};

/// Returns the tolerance, for shares of regions and lists of a tree that depend on chance.
double tolerance(const std::string& collective) {
  if (collective == "gtopk") return 0.15;  // merged lists overlap
  return collective == "dsa" || collective == "oktopk" ? 0.05 : 1e-9;
}

/// Returns whether a collective reduces once more, to measure what it loses.
bool measures_loss(const Component& collective) {
  return collective.name == "gtopk" && collective.settings.text("put_back") == "paper";
}

void check_case(const Case& tested, int world) {
  CAPTURE(tested.name);
  CAPTURE(world);
  const ExchangeRules& rules = tested.rules;
  const auto& entry = Registry<comm::SparseCollectiveEntry>::instance().at(rules.collective.name);
  const Observed observed = Observation(rules, world).run();
  const comm::Prediction expected = entry.predict(rules.collective.settings, observed.sizes);
  CHECK(observed.bytes == doctest::Approx(expected.bytes_sent).epsilon(tolerance(entry.name)));
  CHECK(observed.header_bytes == doctest::Approx(expected.header.bytes));
  if (measures_loss(rules.collective)) return;
  // A short last branch of a tree, and the fold of ranks beyond a power of two, are bounded.
  CHECK(observed.messages <= expected.chain().messages + 1e-6);
  const bool is_power = (world & (world - 1)) == 0;
  if (is_power) CHECK(observed.messages == doctest::Approx(expected.chain().messages));
}

}  // namespace

TEST_SUITE("exchange") {
  TEST_CASE("every exchange sends what its collective predicts for its sizes") {
    for (const Case& tested : all_cases()) {
      for (const int world : kPredictedWorlds) check_case(tested, world);
    }
  }

  TEST_CASE("buckets that travel together add up in bytes, and their messages count once") {
    const comm::Prediction a{.bytes_sent = 10, .payload = {3, 10}, .header = {2, 8}};
    const comm::Prediction b{.bytes_sent = 5, .payload = {4, 6}, .header = {0, 0}};
    comm::Prediction fused = a, followed = a;
    fused.fuse_with(b);
    followed.follow_with(b);
    CHECK(fused.bytes_sent == 15);
    CHECK(fused.payload.messages == 4);
    CHECK(fused.payload.bytes == 16);
    CHECK(fused.header.messages == 2);
    CHECK(followed.payload.messages == 7);
    CHECK(followed.chain().messages == 9);
    CHECK(followed.bytes_sent == fused.bytes_sent);
  }

  TEST_CASE("a plan's cost fuses the buckets of a group that have one form") {
    const BucketPlan sparse{
        .bucket = {}, .form = ExchangeForm::kSparse, .cost = {.bytes_sent = 8, .payload = {2, 8}}, .group = 0};
    BucketPlan dense = sparse;
    dense.form = ExchangeForm::kDense;
    BucketPlan next = sparse;
    next.group = 1;
    ExchangePlan plan;
    plan.buckets = {sparse, dense, sparse, next};
    CHECK(plan.cost().bytes_sent == 32);
    CHECK(plan.cost().payload.messages == 6);
  }
}

}  // namespace dragonn::exchange::testing
