// SPDX-License-Identifier: MIT
/// Exchanges beside backward: the same bits as after it, and errors of either thread end the run.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <omp.h>

#include "comm/local/local.h"
#include "core/file.h"
#include "core/rng.h"
#include "exchange/step_agreement.h"
#include "tests/exchange/combinations.h"
#include "tests/support/devices.h"
#include "tests/support/thread_counts.h"
#include "tests/trainer/quick_run.h"
#include "trainer/run/overlapped_backward.h"
#include "trainer/run/plan.h"

namespace dragonn::trainer::testing {
namespace {

using namespace exchange::testing;

using Grouping = exchange::BucketRules::Grouping;

constexpr std::uint64_t kSteps = 4;

ParameterArena three_layers() {
  ParameterArena arena;
  for (const char* layer : {"first", "second", "third"}) {
    arena.declare(fmt::format("{}.weight", layer), {19, 11}, ParameterRole::kWeight);
    arena.declare(fmt::format("{}.bias", layer), {11}, ParameterRole::kBias);
  }
  arena.allocate();
  return arena;
}

/// A pass over the parameters of an arena, last layer first, that fills each gradient just before it is final. Before
/// `failing` it throws.
class FakeBackward {
 public:
  static constexpr ParameterId kNone = static_cast<ParameterId>(-1);

  FakeBackward(ParameterArena& arena, int rank, ParameterId failing = kNone)
      : arena_(arena), rank_(rank), failing_(failing) {}

  void set_step(std::uint64_t step) { step_ = step; }
  void operator()(const layers::GradientReady& ready) {
    for (ParameterId id = arena_.parameters().size(); id-- > 0;) {
      if (id == failing_) throw std::runtime_error("backward failed");
      // Time for the exchange to run ahead, if anything let it.
      if (ready) std::this_thread::sleep_for(std::chrono::microseconds(100));
      Rng rng(5, "gradient", {step_, static_cast<std::uint64_t>(rank_), id});
      for (float& value : arena_.gradient(id).host()) value = rng.normal();
      if (ready) ready(id);
    }
  }

 private:
  ParameterArena& arena_;
  int rank_;
  ParameterId failing_;
  std::uint64_t step_ = 0;
};

/// A gate that tells when a bucket was exchanged.
class NotifyingGate : public exchange::GroupGate {
 public:
  NotifyingGate(exchange::GroupGate& gate, std::size_t bucket, std::binary_semaphore& closed)
      : gate_(gate), bucket_(bucket), closed_(closed) {}
  void open(std::size_t group) override { gate_.open(group); }
  void close(std::size_t bucket) override {
    gate_.close(bucket);
    if (bucket == bucket_) closed_.release();
  }

 private:
  exchange::GroupGate& gate_;
  std::size_t bucket_;
  std::binary_semaphore& closed_;
};

/// The exchanged sums and the residuals of all steps, bucket by bucket.
using Ledger = std::vector<float>;

void append(Ledger& ledger, const exchange::GradientExchange& exchange) {
  const auto add = [&](std::span<const float> values) { ledger.insert(ledger.end(), values.begin(), values.end()); };
  for (std::size_t bucket = 0; bucket < exchange.buckets().size(); ++bucket) {
    const comm::SparseReduction& reduction = exchange.reduction(bucket);
    add(reduction.is_dense ? reduction.dense_sum.view().host() : reduction.sum.values.view().host());
    add(exchange.memory(bucket).residual().host());
  }
}

/// Returns the ledgers by rank.
std::vector<Ledger> run_steps(const exchange::ExchangeRules& rules, int world_size, bool overlap) {
  std::vector<Ledger> ledgers(static_cast<std::size_t>(world_size));
  comm::run_local(world_size, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    omp_set_num_threads(1);
    ParameterArena arena = three_layers();
    exchange::GradientExchange exchange(rules, arena, communicator);
    FakeBackward backward(arena, communicator.rank());
    ComputeThread thread(communicator);
    OverlappedBackward overlapped(thread, arena, exchange.buckets(), std::ref(backward));
    StepTimers timers;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      backward.set_step(step);
      if (overlap) {
        overlapped.start();
      } else {
        backward({});
      }
      exchange.run({.step = step, .density = 0.1, .learning_rate = 0.1}, View<const float>(arena.gradients()), timers,
                   overlap ? &overlapped : nullptr);
      exchange.commit(timers);
      if (overlap) overlapped.finish(timers);
      append(ledgers[static_cast<std::size_t>(communicator.rank())], exchange);
    }
  });
  return ledgers;
}

exchange::ExchangeRules overlap_rules(const Combination& combination, Grouping grouping) {
  exchange::ExchangeRules rules = rules_of(combination);
  rules.momentum = 0.9f;
  rules.buckets.grouping = grouping;
  rules.buckets.bytes = 1000;  // a matrix has 836, the three vectors 132 together
  rules.buckets.include_vectors = grouping == Grouping::kBytes;
  return rules;
}

std::string error_of(int world_size, const std::function<void(comm::Communicator&)>& fn) {
  try {
    comm::run_local(world_size, {.timeout_s = 60}, fn);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// One overlapped step of top-k by tensor, on a rank of a group.
void overlapped_step(comm::Communicator& communicator, ParameterArena& arena, OverlappedBackward::Pass pass) {
  omp_set_num_threads(1);
  exchange::GradientExchange exchange(overlap_rules({"topk", "allgather", "residual"}, Grouping::kTensor), arena,
                                      communicator);
  ComputeThread thread(communicator);
  OverlappedBackward overlapped(thread, arena, exchange.buckets(), std::move(pass));
  StepTimers timers;
  overlapped.start();
  exchange.run({.step = 3, .density = 0.1}, View<const float>(arena.gradients()), timers, &overlapped);
  exchange.commit(timers);
  overlapped.finish(timers);
  exchange::check_finite(exchange::reduce_step_word(communicator, {.non_finite_bucket = exchange.non_finite_bucket()}),
                         4, exchange.buckets());
}

std::string obstacle_of(std::vector<std::string> overrides) {
  overrides.push_back("compression.overlap=true");
  const RunSpec config = quick_config(overrides);
  return plan_run(config, make_network(config, *load_data(config).train), 2).overlap_obstacle;
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("overlapped exchanges give the sums and residuals of exchanges after backward, for every combination") {
  for (const Combination& combination : combinations()) {
    for (const int world_size : kOverlapWorlds) {
      // Every world by tensor; buckets of several tensors, vectors among them, in one of them.
      for (const auto grouping : {Grouping::kTensor, Grouping::kBytes}) {
        if (grouping == Grouping::kBytes && world_size != 3) continue;
        CAPTURE(combination.name());
        CAPTURE(world_size);
        const exchange::ExchangeRules rules = overlap_rules(combination, grouping);
        const std::vector<Ledger> after = run_steps(rules, world_size, false);
        CHECK(std::ranges::any_of(after.front(), [](float value) { return value != 0; }));
        CHECK(run_steps(rules, world_size, true) == after);
      }
    }
  }
}

TEST_CASE("a run with overlap has the parameters of the run without, with every optimizer step in between") {
  for (const Combination& combination : pairwise_combinations()) {
    for (const char* bucket : {"tensor", "0.001"}) {
      CAPTURE(combination.name());
      CAPTURE(bucket);
      std::vector<std::string> overrides{
          "compression.method=" + combination.method(), "compression.collective=" + combination.collective,
          "compression.memory=" + combination.memory, fmt::format("compression.bucket={}", bucket)};
      const TemporaryFolder plain, overlapped;
      const QuickResult expected = quick_run(quick_config(overrides), 3, plain.path());
      overrides.push_back("compression.overlap=true");
      CHECK(quick_run(quick_config(overrides), 3, overlapped.path()).parameters == expected.parameters);
    }
  }
}

DRAGONN_DEVICE_TEST("overlap goes with dense buckets, micro-batches, global clipping and every world size") {
  for (const std::vector<std::string>& extra :
       std::vector<std::vector<std::string>>{{"compression.method=dense", "compression.bucket=0.0005"},
                                             {"compression.method=topk", "train.gradient_accumulation=3"},
                                             {"compression.method=topk", "train.clip=global", "train.clip_norm=0.1"}}) {
    for (const int world_size : device.is_cpu() ? kOverlapWorlds : std::vector{2, 3}) {
      CAPTURE(extra.back());
      CAPTURE(world_size);
      CHECK(obstacle_of(extra).empty());
      std::vector<std::string> overrides = on_device(device, extra);
      const TemporaryFolder plain, overlapped;
      const QuickResult expected = quick_run(quick_config(overrides), world_size, plain.path());
      overrides.push_back("compression.overlap=true");
      CHECK(quick_run(quick_config(overrides), world_size, overlapped.path()).parameters == expected.parameters);
    }
  }
}

TEST_CASE("overlap changes no bits with several OpenMP threads per worker") {
  for (const int threads : dragonn::test::kThreadCounts) {
    CAPTURE(threads);
    // Matrices large enough for the passes over their buckets to be cut into pieces.
    std::vector<std::string> overrides{"compression.method=dragonn", "model.hidden=[256, 256]",
                                       fmt::format("comm.threads_per_worker={}", threads)};
    const TemporaryFolder plain, overlapped;
    const QuickResult expected = quick_run(quick_config(overrides), 2, plain.path());
    overrides.push_back("compression.overlap=true");
    CHECK(quick_run(quick_config(overrides), 2, overlapped.path()).parameters == expected.parameters);
  }
}

DRAGONN_DEVICE_TEST("overlap may be switched when a run is resumed") {
  const std::vector<std::string> common =
      on_device(device, {"compression.method=dgc", "checkpoint.every_steps=1", "checkpoint.keep=100"});
  const auto with = [&](const char* overlap) {
    std::vector<std::string> overrides = common;
    overrides.push_back(fmt::format("compression.overlap={}", overlap));
    return quick_config(overrides);
  };
  for (const auto& [first, second] :
       {std::pair("true", "false"), std::pair("false", "true"), std::pair("true", "true")}) {
    CAPTURE(first);
    const TemporaryFolder whole, rest;
    const QuickResult uninterrupted = quick_run(with(first), 3, whole.path());
    const auto checkpoint = whole.path() / "checkpoints" / CheckpointStore::folder_name(3);
    CHECK(quick_run(with(second), 3, rest.path(), checkpoint.string()).parameters == uninterrupted.parameters);
    CHECK(read_text_file(rest.path() / "summary.json").find("\"warnings\": []") != std::string::npos);
  }
}

TEST_CASE("buckets are exchanged while backward goes on, and what was hidden and what was not is told") {
  constexpr std::size_t kEarlyBucket = 1;  // of the second layer
  constexpr double kPause = 0.02;
  comm::run_local(2, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    omp_set_num_threads(1);
    ParameterArena arena = three_layers();
    exchange::GradientExchange exchange(overlap_rules({"topk", "allgather", "residual"}, Grouping::kTensor), arena,
                                        communicator);
    std::binary_semaphore exchanged(0);
    bool in_time = false;
    ComputeThread thread(communicator);
    OverlappedBackward overlapped(thread, arena, exchange.buckets(), [&](const layers::GradientReady& ready) {
      for (ParameterId id = arena.parameters().size(); id-- > 0;) {
        if (id == 1) {  // the first layer waits until the others are exchanged, and lets nothing run beside it
          in_time = exchanged.try_acquire_for(std::chrono::seconds(30));
          std::this_thread::sleep_for(std::chrono::duration<double>(kPause));
        }
        if (id > 0) ready(id);  // the first layer's bucket must wait for the end of the pass, which makes all final
      }
    });
    NotifyingGate gate(overlapped, kEarlyBucket, exchanged);
    StepTimers timers;
    overlapped.start();
    exchange.run({.step = 0, .density = 0.1}, View<const float>(arena.gradients()), timers, &gate);
    exchange.commit(timers);
    overlapped.finish(timers);
    const double backward = timers.seconds(StepPart::kBackward), hidden = timers.seconds(StepPart::kExchangeHidden),
                 exposed = timers.seconds(StepPart::kExchangeExposed);
    const bool told = hidden > 0 && hidden <= backward - kPause && exposed > 0;
    if (!in_time || !told) throw Error(fmt::format("backward {}, hidden {}, exposed {}", backward, hidden, exposed));
  });
}

TEST_CASE("metrics of an overlapped run tell hidden and exposed time, those of others do not") {
  const TemporaryFolder overlapped, plain;
  quick_run(quick_config({"compression.method=topk", "compression.overlap=true"}), 2, overlapped.path());
  quick_run(quick_config({"compression.method=topk"}), 2, plain.path());
  const std::string text = read_text_file(overlapped.path() / "metrics.jsonl");
  CHECK(text.find("\"backward\":") != std::string::npos);
  CHECK(text.find("\"exchange_exposed\":") != std::string::npos);
  CHECK(read_text_file(plain.path() / "metrics.jsonl").find("\"exchange_exposed\":") == std::string::npos);
}

TEST_CASE("an error of backward ends the run on all ranks, wherever it comes") {
  for (const ParameterId failing : {ParameterId{5}, ParameterId{2}, ParameterId{0}}) {
    for (const int world_size : {1, 3}) {
      CAPTURE(failing);
      const std::string error = error_of(world_size, [&](comm::Communicator& communicator) {
        ParameterArena arena = three_layers();
        const bool fails = communicator.rank() == world_size - 1;
        overlapped_step(communicator, arena,
                        FakeBackward(arena, communicator.rank(), fails ? failing : FakeBackward::kNone));
      });
      CHECK(error == "backward failed");
    }
  }
}

TEST_CASE("a gradient that is not finite ends the run as without overlap, while backward goes on") {
  const std::string error = error_of(3, [&](comm::Communicator& communicator) {
    ParameterArena arena = three_layers();
    overlapped_step(communicator, arena, [&](const layers::GradientReady& ready) {
      FakeBackward(arena, communicator.rank())([&](ParameterId id) {
        if (id == 4 && communicator.rank() == 1) arena.gradient(id).host()[7] = std::numeric_limits<float>::infinity();
        ready(id);
      });
    });
  });
  CHECK(error.find("step 4: a worker's gradient of third.weight is not finite") != std::string::npos);
}

TEST_CASE("a rank that fails in its exchange ends the others, and its backward comes to its end first") {
  std::atomic<int> ended = 0;
  const std::string error = error_of(3, [&](comm::Communicator& communicator) {
    ParameterArena arena = three_layers();
    if (communicator.rank() == 2) throw SystemError("no exchange here");
    overlapped_step(communicator, arena, [&](const layers::GradientReady& ready) {
      FakeBackward(arena, communicator.rank())(ready);
      ++ended;
    });
  });
  CHECK(error == "no exchange here");
  CHECK(ended == 2);
}

TEST_CASE("what leaves nothing to overlap is named") {
  const auto names = [](const std::string& obstacle, const std::string& part) {
    return obstacle.find(part) != std::string::npos;
  };
  CHECK(obstacle_of({"compression.method=topk"}).empty());
  CHECK(names(obstacle_of({"compression.method=topk", "train.clip=local"}), "train.clip = \"local\""));
  CHECK(names(obstacle_of({"compression.method=topk", "train.clip=local_sqrt_workers"}), "local_sqrt_workers"));
  CHECK(names(obstacle_of({"compression.method=topk", "train.non_finite=skip"}), "train.non_finite"));
  CHECK(names(obstacle_of({"compression.method=topk", "compression.bucket=model"}), "compression.bucket"));
  CHECK(names(obstacle_of({"compression.method=dense"}), "compression.bucket"));  // 4 kB fit one bucket of 25 MiB
}

TEST_CASE("the dry run tells of overlap where it is asked for, and what is in its way") {
  const auto shown = [](const std::vector<std::string>& overrides) {
    const RunSpec config = quick_config(overrides);
    return describe(plan_run(config, make_network(config, {6, 6, 1}, 4), 2), config, 2);
  };
  CHECK(shown({"compression.method=topk"}).find("overlap") == std::string::npos);
  CHECK(shown({"compression.method=topk", "compression.overlap=true"}).find("overlap: a bucket is exchanged as soon") !=
        std::string::npos);
  CHECK(shown({"compression.method=topk", "compression.overlap=true", "train.non_finite=skip"})
            .find("overlap: none, as train.non_finite") != std::string::npos);
}

TEST_CASE("a run whose overlap has no effect says why, and gives the same bits") {
  const TemporaryFolder plain, overlapped;
  const QuickResult expected = quick_run(quick_config({"compression.method=gtopk"}), 2, plain.path());
  const RunSpec config = quick_config({"compression.method=gtopk", "compression.bucket=model",
                                       "compression.include_vectors=no", "compression.overlap=true"});
  const TemporaryFolder whole;
  quick_run(config, 2, whole.path());
  CHECK(read_text_file(whole.path() / "summary.json")
            .find("compression.overlap = true has no effect: the first bucket") != std::string::npos);
  const RunSpec skipping =
      quick_config({"compression.method=gtopk", "train.non_finite=skip", "compression.overlap=true"});
  CHECK(quick_run(skipping, 2, overlapped.path()).parameters == expected.parameters);
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
