// SPDX-License-Identifier: MIT
/// DeMo: its steps by hand and against float64, and the preset that makes them up.
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/rng.h"
#include "tests/exchange/combinations.h"
#include "tests/support/cosines.h"
#include "tests/support/text.h"
#include "tests/trainer/quick_run.h"
#include "trainer/update/schemes/step.h"

namespace dragonn::trainer::testing {
namespace {

using namespace exchange::testing;
using Vector = std::vector<float>;

struct DemoTask {
  std::int64_t rows, columns, chunk, count;
  double decay, weight_decay;
  bool averages_senders = true;
  int ranks = 2;
};

/// Returns rank 0's parameters after each of `steps` steps of DeMo of rate `rate`, from zeros, and checks that all
/// ranks have them. @param gradient of (step, rank).
template <class Gradient>
std::vector<Vector> train_demo(const DemoTask& task, std::uint64_t steps, double rate, const Gradient& gradient) {
  std::vector<std::vector<Vector>> values(static_cast<std::size_t>(task.ranks));
  comm::run_local(task.ranks, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    ParameterArena arena;
    arena.declare("w", {task.rows, task.columns}, ParameterRole::kWeight);
    arena.allocate();
    std::ranges::fill(arena.values().host(), 0.0f);
    exchange::ExchangeRules rules = rules_of({"chunktopk", "allgather", "residual"});
    rules.sparsifier.settings.set("chunk", task.chunk);
    rules.sparsifier.settings.set("count", task.count);
    rules.memory.settings.set("decay", task.decay);
    rules.dct = rules.folded = true;
    rules.averages_senders = task.averages_senders;
    exchange::GradientExchange exchange(rules, arena, communicator);
    const auto& entry = Registry<optim::OptimizerEntry>::instance().at("signsgd");
    Settings settings(entry.settings);
    settings.set("weight_decay", task.weight_decay);
    const auto optimizer = entry.make(settings, arena);
    StepTimers timers;
    for (std::uint64_t step = 0; step < steps; ++step) {
      std::ranges::copy(gradient(step, communicator.rank()), arena.gradients().host().begin());
      const auto sums = exchange.run({.step = step, .density = 0.01, .learning_rate = rate}, arena.gradients(), timers);
      exchange.commit(timers);
      optimizer->begin_step(rate, step);
      apply_sums(sums, 1, *optimizer);
      values[static_cast<std::size_t>(communicator.rank())].emplace_back(arena.values().host().begin(),
                                                                         arena.values().host().end());
    }
  });
  for (const auto& others : values) CHECK(others == values[0]);
  return values[0];
}

/// DeMo's published step in float64: the momentum is kept as it is, and what was sent is transformed back to be
/// removed.
class Reference {
 public:
  explicit Reference(const DemoTask& task)
      : task_(task), size_(static_cast<std::size_t>(task.rows * task.columns)), theta_(size_) {
    delta_.assign(static_cast<std::size_t>(task.ranks), std::vector<double>(size_));
  }

  template <class Gradient>
  const std::vector<double>& step(double rate, const Gradient& gradient) {
    std::vector<double> sum(size_), senders(size_);
    for (std::size_t rank = 0; rank < delta_.size(); ++rank) {
      const Vector own = gradient(static_cast<int>(rank));
      for (std::size_t i = 0; i < size_; ++i) delta_[rank][i] = task_.decay * delta_[rank][i] + rate * own[i];
      std::vector<double> sent = transform(delta_[rank], false);
      keep_largest(sent);
      for (std::size_t i = 0; i < size_; ++i) {
        sum[i] += sent[i];
        senders[i] += sent[i] != 0 ? 1 : 0;
      }
      const std::vector<double> removed = transform(sent, true);
      for (std::size_t i = 0; i < size_; ++i) delta_[rank][i] -= removed[i];
    }
    for (std::size_t i = 0; i < size_; ++i) sum[i] /= std::max(1.0, senders[i]);
    const std::vector<double> mean = transform(sum, true);
    for (std::size_t i = 0; i < size_; ++i)
      theta_[i] = theta_[i] * (1 - rate * task_.weight_decay) - rate * (mean[i] > 0 ? 1 : mean[i] < 0 ? -1 : 0);
    return theta_;
  }

 private:
  std::size_t tile_side(std::int64_t extent) const {
    std::int64_t side = std::min(extent, task_.chunk);
    while (extent % side != 0) --side;
    return static_cast<std::size_t>(side);
  }
  std::vector<double> transform(const std::vector<double>& values, bool inverse) const {
    return dragonn::test::transformed_tiles(values, static_cast<std::size_t>(task_.rows),
                                            static_cast<std::size_t>(task_.columns), tile_side(task_.rows),
                                            tile_side(task_.columns), inverse);
  }
  void keep_largest(std::vector<double>& values) const {
    const auto columns = static_cast<std::size_t>(task_.columns);
    const std::size_t across = columns / tile_side(task_.columns);
    const auto tile_of = [&](std::size_t i) {
      return i / columns / tile_side(task_.rows) * across + i % columns / tile_side(task_.columns);
    };
    std::vector<double> kept(values.size());
    std::vector<std::size_t> order(values.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return std::abs(values[i]); });
    std::vector<std::int64_t> counts(values.size());
    for (const std::size_t i : order)
      if (counts[tile_of(i)]++ < task_.count) kept[i] = values[i];
    values = kept;
  }

  DemoTask task_;
  std::size_t size_;
  std::vector<double> theta_;
  std::vector<std::vector<double>> delta_;
};

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("demo: two steps of two ranks by hand") {
  // Transforms of 2 x 2: rank 0 has [5, -1, -2, 0] and sends 5 and -2, rank 1 [1, 0, 0, -6] and sends both. The means
  // over senders are [3, 0, -2, -6], which is [-2.5, 3.5, 5.5, -.5] in the gradient's basis; over ranks the last one is
  // .5.
  const auto gradient = [](std::uint64_t step, int rank) {
    if (step == 0) return rank == 0 ? Vector{1, 2, 3, 4} : Vector{-2.5f, 3.5f, 3.5f, -2.5f};
    // Rank 0 has half of its -1 left, and rank 1 sends [2, 0, 0, 0]: [.75, 1.25, .75, 1.25].
    return rank == 0 ? Vector{0, 0, 0, 0} : Vector{1, 1, 1, 1};
  };
  const DemoTask task{.rows = 2, .columns = 2, .chunk = 64, .count = 2, .decay = 0.5, .weight_decay = 0};
  CHECK(train_demo(task, 2, 1, gradient) == std::vector<Vector>{{1, -1, -1, 1}, {0, -2, -2, 0}});
  DemoTask of_ranks = task, decaying = task;
  of_ranks.averages_senders = false;
  CHECK(train_demo(of_ranks, 1, 1, gradient)[0] == Vector{1, -1, -1, -1});
  decaying.weight_decay = 0.25;
  CHECK(train_demo(decaying, 2, 1, gradient)[1] == Vector{-0.25f, -1.75f, -1.75f, -0.25f});
}

TEST_CASE("demo: steps are those of the published algorithm in float64, for worlds 1, 2, 3 and 5") {
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    const DemoTask task{
        .rows = 12, .columns = 10, .chunk = 6, .count = 4, .decay = 0.99, .weight_decay = 0.1, .ranks = ranks};
    const auto gradient = [](std::uint64_t step, int rank) {
      Rng rng(3, "demo test", {step, static_cast<std::uint64_t>(rank)});
      Vector values(120);
      for (float& value : values) value = rng.normal();
      return values;
    };
    constexpr std::uint64_t kSteps = 10;
    constexpr double kRate = 0.01;
    const std::vector<Vector> steps = train_demo(task, kSteps, kRate, gradient);
    Reference reference(task);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const auto& expected = reference.step(kRate, [&](int rank) { return gradient(step, rank); });
      // A sign that differed would be 2 % of the largest value.
      for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(steps[step][i] - expected[i]) < 1e-6);
    }
  }
}

TEST_CASE("demo: the method is a preset of parts, in the basis of the DCT, and each can be set apart") {
  const auto compression = [](std::vector<std::string> overrides) { return quick_config(overrides).compression; };
  const CompressionConfig demo = compression({"compression.method=demo", "optimizer.name=signsgd"});
  CHECK(demo.sparsifier.name == "chunktopk");
  CHECK(demo.memory.name == "residual");
  CHECK(demo.collective.name == "allgather");
  CHECK(demo.transform == Transform::kDct);
  CHECK(compression({"compression.method=demo", "compression.transform=none"}).transform == Transform::kNone);
  CHECK(compression({"compression.method=topk", "compression.transform=dct"}).transform == Transform::kDct);
  CHECK(compression({"compression.method=topk"}).transform == Transform::kNone);
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
