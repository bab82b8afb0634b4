// SPDX-License-Identifier: MIT
/// The exchange in two levels has the bits of one between nodes of a single worker, whose gradient is the mean of the
/// node's workers: sums, counts, residuals and saved state, of which each bucket has one per node.
#include "exchange/node_sums.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/error.h"
#include "core/rng.h"
#include "tests/exchange/combinations.h"
#include "tests/exchange/sums.h"

namespace dragonn::exchange::testing {
namespace {

constexpr std::uint64_t kSteps = 4;

ParameterArena small_arena() {
  ParameterArena arena;
  arena.declare("a.weight", {23, 7}, ParameterRole::kWeight);
  arena.declare("a.bias", {7}, ParameterRole::kBias);
  arena.declare("b.weight", {7, 5}, ParameterRole::kWeight);
  arena.declare("c.weight", {5, 4}, ParameterRole::kWeight);
  arena.declare("c.bias", {4}, ParameterRole::kBias);
  arena.allocate();
  return arena;
}

/// Random numbers, so that every sum rounds.
std::vector<float> gradient_of(std::size_t size, int rank, std::uint64_t step) {
  std::vector<float> gradient(size);
  Rng rng(3, "node sums", {step, static_cast<std::uint64_t>(rank)});
  for (float& value : gradient) value = static_cast<float>(rng.uniform()) - 0.5f;
  return gradient;
}

/// Returns the sum over the workers of a node, in their order.
std::vector<float> node_gradient(std::size_t size, const comm::Nodes& nodes, int node, std::uint64_t step) {
  std::vector<float> sum;
  for (const int rank : nodes.ranks_of(node)) {
    const std::vector<float> gradient = gradient_of(size, rank, step);
    if (sum.empty()) {
      sum = gradient;
    } else {
      std::ranges::transform(sum, gradient, sum.begin(), std::plus<>());
    }
  }
  return sum;
}

/// The results of a rank's steps.
struct Results {
  std::vector<std::vector<float>> taken;  ///< by step: the mean that the optimizer takes
  std::vector<ExchangeCounts> counts;     ///< by step
  Archive saved;
};

void add_mean(const BucketSum& sum, std::vector<float>& mean) {
  for_each_value(sum, [&](std::size_t place, float value) { mean[place] = value / sum.divisor; });
}

/// Opens for all groups.
class OpenGate final : public GroupGate {
 public:
  void open(std::size_t /*group*/) override {}
  void close(std::size_t /*group*/) override {}
};

using Gradient = std::function<std::vector<float>(int rank, std::uint64_t step)>;

std::vector<Results> run_steps(const ExchangeRules& rules, int ranks, const Gradient& gradient, float scale,
                               bool has_gate = false) {
  std::vector<Results> results(static_cast<std::size_t>(ranks));
  comm::run_local(ranks, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    ParameterArena arena = small_arena();
    GradientExchange exchange(rules, arena, communicator);
    Results& mine = results[static_cast<std::size_t>(communicator.rank())];
    StepTimers timers;
    OpenGate gate;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const std::vector<float> values = gradient(communicator.rank(), step);
      const auto sums =
          exchange.run({.step = step, .density = 0.1, .learning_rate = 0.1, .gradient_scale = scale},
                       View<const float>(std::span<const float>(values)), timers, has_gate ? &gate : nullptr);
      exchange.commit(timers);
      std::vector<float> mean(arena.size());
      for (const BucketSum& sum : sums) add_mean(sum, mean);
      mine.taken.push_back(std::move(mean));
      mine.counts.push_back(exchange.counts());
    }
    exchange.save(mine.saved);
  });
  return results;
}

std::vector<Results> run_nodes(const ExchangeRules& rules, const comm::Nodes& nodes, bool has_gate = false) {
  ExchangeRules of_nodes = rules;
  of_nodes.nodes = nodes;
  const std::size_t size = small_arena().size();
  return run_steps(
      of_nodes, nodes.ranks(), [&](int rank, std::uint64_t step) { return gradient_of(size, rank, step); }, 1,
      has_gate);
}

/// The same steps of as many single workers as there are nodes.
std::vector<Results> run_singles(const ExchangeRules& rules, const comm::Nodes& nodes) {
  const std::size_t size = small_arena().size();
  return run_steps(
      rules, nodes.count(), [&](int node, std::uint64_t step) { return node_gradient(size, nodes, node, step); },
      static_cast<float>(nodes.count()) / static_cast<float>(nodes.ranks()));
}

ExchangeRules node_rules(const Combination& combination, const comm::Nodes& nodes, BucketRules::Grouping grouping) {
  ExchangeRules rules = rules_of(combination);
  rules.momentum = 0.9f;
  rules.buckets.grouping = grouping;
  rules.buckets.include_vectors = true;
  rules.buckets.pieces = static_cast<std::size_t>(nodes.places());
  rules.fusion.bytes = 1 << 20;
  return rules;
}

/// Returns what is not as in the run of single workers; empty if nothing.
std::string difference(const std::vector<Results>& nodes_results, const std::vector<Results>& singles,
                       const comm::Nodes& nodes) {
  for (int rank = 0; rank < nodes.ranks(); ++rank) {
    const Results& mine = nodes_results[static_cast<std::size_t>(rank)];
    const Results& node = singles[static_cast<std::size_t>(nodes.node_of(rank))];
    if (mine.taken != node.taken) return "sums";
    for (std::size_t step = 0; step < kSteps; ++step) {
      const ExchangeCounts &a = mine.counts[step], &b = node.counts[step];
      if (a.selected != b.selected || a.global != b.global || a.numel != b.numel || a.padded != b.padded)
        return "counts";
    }
  }
  for (int node = 0; node < nodes.count(); ++node) {
    std::map<std::string, Archive::Field> together;
    for (const int rank : nodes.ranks_of(node)) {
      for (const auto& [name, field] : nodes_results[static_cast<std::size_t>(rank)].saved.fields()) {
        if (!together.emplace(name, field).second) return name + " is kept twice";
      }
    }
    if (together != singles[static_cast<std::size_t>(node)].saved.fields()) return "saved state";
  }
  return "";
}

}  // namespace

TEST_SUITE_BEGIN("exchange");

TEST_CASE("two levels have the bits of single workers with the means of the nodes, with every combination") {
  std::vector<Combination> all = combinations();
  std::ranges::move(pairwise_coded_combinations(), std::back_inserter(all));
  std::size_t checked = 0;
  for (const Combination& combination : all) {
    const bool is_even = checked++ % 2 == 0;
    const comm::Nodes nodes = is_even ? comm::Nodes::of_size(4, 2) : comm::Nodes::of_size(6, 3);
    const ExchangeRules rules =
        node_rules(combination, nodes, is_even ? BucketRules::Grouping::kModel : BucketRules::Grouping::kTensor);
    CAPTURE(combination.name());
    CHECK(difference(run_nodes(rules, nodes), run_singles(rules, nodes), nodes) == "");
  }
  CHECK(checked >= 100);
}

TEST_CASE("two levels on even and uneven nodes, in both orders, with and without a gate") {
  const std::vector<int> crossed{0, 1, 1, 0, 2, 2};
  const std::vector<comm::Nodes> worlds{comm::Nodes::of_size(4, 2),
                                        comm::Nodes::of_size(6, 3),
                                        comm::Nodes::of_size(6, 2),
                                        comm::Nodes::of_size(16, 4),
                                        comm::Nodes::of_size(4, 3),
                                        comm::Nodes(std::span<const int>(crossed)),
                                        comm::Nodes(3)};
  for (const comm::Nodes& nodes : worlds) {
    for (const Combination& combination :
         {Combination{"topk", "allgather", "residual"}, Combination{"dgc", "allgather", "momentum_correction"},
          Combination{"oktopk", "oktopk", "residual"}, Combination{"topk", "gtopk", "residual"},
          Combination{"topk", "allgather", "ef21"}, Combination{"none", "allgather", "none", "qsgd"}}) {
      for (const auto grouping : {BucketRules::Grouping::kTensor, BucketRules::Grouping::kModel}) {
        const ExchangeRules rules = node_rules(combination, nodes, grouping);
        CAPTURE(combination.name());
        CAPTURE(comm::describe(nodes));
        const std::vector<Results> singles = run_singles(rules, nodes);
        CHECK(difference(run_nodes(rules, nodes), singles, nodes) == "");
        CHECK(difference(run_nodes(rules, nodes, /*has_gate=*/true), singles, nodes) == "");
      }
    }
  }
}

TEST_CASE("two levels lose no gradient mass, also where an exchange is abandoned") {
  const comm::Nodes nodes = comm::Nodes::of_size(4, 3);  // 3 + 1: means with a factor of 1 / 2
  const std::size_t size = small_arena().size();
  std::vector<double> brought(size), taken(size), left(size);
  std::vector<std::vector<double>> residuals(4, std::vector<double>(size));
  std::vector<std::vector<float>> means;
  comm::run_local(4, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    ParameterArena arena = small_arena();
    ExchangeRules rules = node_rules({"topk", "allgather", "residual"}, nodes, BucketRules::Grouping::kTensor);
    rules.nodes = nodes;
    GradientExchange exchange(rules, arena, communicator);
    StepTimers timers;
    std::vector<float> gradient(size);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      Rng rng(11, "node mass", {step, static_cast<std::uint64_t>(communicator.rank())});
      for (float& value : gradient) value = static_cast<float>(rng.below(17)) - 8.0f;
      const auto sums =
          exchange.run({.step = step, .density = 0.1}, View<const float>(std::span<const float>(gradient)), timers);
      if (step == 1) {
        exchange.abandon();
        continue;
      }
      exchange.commit(timers);
      if (communicator.rank() != 3) continue;
      std::vector<float>& mean = means.emplace_back(size);
      for (const BucketSum& sum : sums) add_mean(sum, mean);
    }
    for (std::size_t bucket = 0; bucket < exchange.buckets().size(); ++bucket) {
      if (!exchange.has(bucket)) continue;
      const auto values = exchange.memory(bucket).residual().host();
      std::ranges::copy(values, residuals[static_cast<std::size_t>(communicator.rank())].begin() +
                                    static_cast<std::ptrdiff_t>(exchange.buckets()[bucket].offset));
    }
  });
  for (int rank = 0; rank < 4; ++rank) {
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      Rng rng(11, "node mass", {step, static_cast<std::uint64_t>(rank)});
      for (double& sum : brought) sum += (static_cast<double>(rng.below(17)) - 8.0) / nodes.ranks();
    }
    for (std::size_t i = 0; i < size; ++i) left[i] += residuals[static_cast<std::size_t>(rank)][i] / nodes.count();
  }
  for (const std::vector<float>& mean : means) std::ranges::transform(taken, mean, taken.begin(), std::plus<>());
  std::ranges::transform(taken, left, taken.begin(), std::plus<>());
  CHECK(taken == brought);
}

TEST_CASE("between nodes go the bytes of the nodes' own exchange, and inside them those of the formula") {
  const comm::Nodes nodes = comm::Nodes::of_size(6, 3);
  const ExchangeRules rules = node_rules({"topk", "allgather", "residual"}, nodes, BucketRules::Grouping::kTensor);
  const auto sent = [](const ExchangeRules& of, int ranks, comm::Phase phase) {
    std::vector<std::uint64_t> bytes(static_cast<std::size_t>(ranks));
    comm::run_local(ranks, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
      ParameterArena arena = small_arena();
      GradientExchange exchange(of, arena, communicator);
      const std::vector<float> gradient = gradient_of(arena.size(), communicator.rank(), 0);
      StepTimers timers;
      exchange.run({.density = 0.1}, View<const float>(std::span<const float>(gradient)), timers);
      if (phase == comm::Phase::kExchange) exchange.commit(timers);
      bytes[static_cast<std::size_t>(communicator.rank())] = communicator.traffic()[phase].bytes_sent;
    });
    return bytes;
  };
  ExchangeRules of_nodes = rules;
  of_nodes.nodes = nodes;
  const auto total = [](const std::vector<std::uint64_t>& bytes, std::size_t from, std::size_t to) {
    std::uint64_t sum = 0;
    for (std::size_t i = from; i < to; ++i) sum += bytes[i];
    return sum;
  };
  const auto across = sent(of_nodes, 6, comm::Phase::kExchange), single = sent(rules, 2, comm::Phase::kExchange);
  CHECK(total(across, 0, 3) == single[0]);
  CHECK(total(across, 3, 6) == single[1]);
  // Before the sums are shared out each worker has sent all but its own buckets.
  CHECK(total(sent(of_nodes, 6, comm::Phase::kNode), 0, 3) == 2 * sizeof(float) * small_arena().size());
}

TEST_CASE("a model's bucket is cut at tensors, and buckets are dealt out by size") {
  const ParameterArena arena = small_arena();
  BucketRules rules{.grouping = BucketRules::Grouping::kModel, .include_vectors = true, .pieces = 2};
  const std::vector<Bucket> two = make_buckets(arena, rules);
  REQUIRE(two.size() == 2);
  CHECK(two[0].size + two[1].size == arena.size());
  rules.pieces = 1;
  CHECK(make_buckets(arena, rules).size() == 1);
  std::vector<Bucket> buckets;
  for (const std::size_t size : {3, 9, 4, 2}) buckets.push_back({.size = size});
  CHECK(deal_out(buckets, 2) == std::vector{1, 0, 1, 1});
  CHECK(deal_out(buckets, 1) == std::vector{0, 0, 0, 0});
  buckets[3].fragment = 1;
  CHECK(deal_out(buckets, 2)[3] == 0);
}

TEST_CASE("saved state goes to other nodes: residuals keep their weight, estimates their sum") {
  const comm::Nodes two_by_two = comm::Nodes::of_size(4, 2), single = comm::Nodes::of_size(4, 1),
                    uneven = comm::Nodes::of_size(4, 3), three = comm::Nodes::of_size(6, 2);
  const auto weighted_mass = [](const std::vector<Archive>& archives, const comm::Nodes& nodes) {
    std::map<std::string, std::vector<double>> sums;
    for (const Archive& archive : archives) {
      for (const auto& [name, field] : archive.fields()) {
        if (!name.ends_with("/residual")) continue;
        const std::vector<float> values = archive.get_vector<float>(name);
        std::vector<double>& sum = sums[name];
        sum.resize(values.size());
        // In units of a single worker's gradient.
        for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i] * (1.0 * nodes.ranks() / nodes.count());
      }
    }
    return sums;
  };
  for (const auto& [from, to] :
       {std::pair(two_by_two, single), std::pair(single, two_by_two), std::pair(two_by_two, uneven),
        std::pair(two_by_two, three), std::pair(three, two_by_two), std::pair(uneven, three)}) {
    CAPTURE(comm::describe(from));
    CAPTURE(comm::describe(to));
    const auto rules_for = [](const comm::Nodes& nodes) {
      ExchangeRules rules = rules_of({"topk", "allgather", "residual"});
      rules.buckets.include_vectors = true;
      if (nodes.most() > 1) rules.nodes = nodes;
      return rules;
    };
    std::vector<Archive> saved(static_cast<std::size_t>(from.ranks())), taken(static_cast<std::size_t>(to.ranks()));
    Archive model;
    comm::run_local(from.ranks(), {.timeout_s = 60}, [&](comm::Communicator& communicator) {
      ParameterArena arena = small_arena();
      GradientExchange exchange(rules_for(from), arena, communicator);
      std::vector<float> gradient(arena.size());
      Rng rng(7, "resharded nodes", {static_cast<std::uint64_t>(communicator.rank())});
      for (float& value : gradient) value = 12 * (static_cast<float>(rng.below(17)) - 8.0f);
      StepTimers timers;
      exchange.run({.density = 0.1}, View<const float>(std::span<const float>(gradient)), timers);
      exchange.commit(timers);
      exchange.save(saved[static_cast<std::size_t>(communicator.rank())]);
      if (communicator.rank() == 0) exchange.save_shared(model);
    });
    CHECK(saved_nodes(model, from.ranks()) == from);
    comm::run_local(to.ranks(), {.timeout_s = 60}, [&](comm::Communicator& communicator) {
      ParameterArena arena = small_arena();
      GradientExchange exchange(rules_for(to), arena, communicator);
      for (const RankToTake& rank : exchange.ranks_to_take(saved_nodes(model, from.ranks())))
        exchange.reshard_from(saved[static_cast<std::size_t>(rank.rank)], rank.what);
      exchange.save(taken[static_cast<std::size_t>(communicator.rank())]);
    });
    CHECK(weighted_mass(saved, from) == weighted_mass(taken, to));
  }
}

TEST_SUITE_END();

}  // namespace dragonn::exchange::testing
