// SPDX-License-Identifier: MIT
/// Synchronous steps with a delay: a step applies the gradients of the step before.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/file.h"
#include "tests/support/text.h"
#include "tests/trainer/quick_run.h"
#include "tests/trainer/resharded.h"
#include "trainer/metrics/metrics.h"
#include "trainer/run/plan.h"
#include "trainer/run/training.h"

namespace dragonn::trainer::testing {
namespace {

using dragonn::test::contains;
using Overrides = std::vector<std::string>;

constexpr std::uint64_t kSteps = 6;  // of a quick run
constexpr const char* kGradient = "update/gradient";

/// A config that saves every step.
RunSpec delayed_config(Overrides overrides = {}) {
  overrides.insert(overrides.begin(), {"update.delay_steps=1", "checkpoint.every_steps=1", "checkpoint.keep=100"});
  return quick_config(overrides);
}

Overrides demo(Overrides more = {}) {
  more.insert(more.begin(), {"compression.method=demo", "optimizer.name=signsgd", "compression.acc_form=folded",
                             "compression.include_vectors=yes", "update.average=senders",
                             "compression.residual.decay=0.9", "optimizer.learning_rate=0.01"});
  return more;
}

std::filesystem::path checkpoint_of(const TemporaryFolder& folder, std::uint64_t step) {
  return folder.path() / "checkpoints" / CheckpointStore::folder_name(step);
}

std::vector<float> parameters_after(const TemporaryFolder& folder, std::uint64_t step) {
  return CheckpointStore::read_model(checkpoint_of(folder, step)).get_vector<float>("parameters");
}

/// Returns the sum over ranks of the gradients that wait after a step.
std::vector<float> waiting(const std::vector<Archive>& ranks) {
  std::vector<float> sum = ranks[0].get_vector<float>(kGradient);
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const std::vector<float> other = ranks[rank].get_vector<float>(kGradient);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  }
  return sum;
}

std::vector<Archive> saved_ranks(const TemporaryFolder& folder, std::uint64_t step, int workers) {
  std::vector<Archive> ranks;
  for (int rank = 0; rank < workers; ++rank)
    ranks.push_back(CheckpointStore::read_rank(checkpoint_of(folder, step), rank));
  return ranks;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  return largest;
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("delay: a step applies the gradients of the step before, and the first one none") {
  const Overrides plain{"optimizer.momentum=0", "optimizer.weight_decay=0"};
  for (const int workers : {1, 2, 3, 5}) {
    CAPTURE(workers);
    const TemporaryFolder folder, undelayed;
    CHECK(quick_run(delayed_config(plain), workers, folder.path()).exit_code == 0);
    for (std::uint64_t step = 1; step < kSteps; ++step) {
      std::vector<float> expected = parameters_after(folder, step);
      const std::vector<float> sum = waiting(saved_ranks(folder, step, workers));
      for (std::size_t i = 0; i < sum.size(); ++i) expected[i] -= 0.05f / static_cast<float>(workers) * sum[i];
      CHECK(largest_difference(parameters_after(folder, step + 1), expected) < 1e-6);
    }
    Overrides one = plain;
    one.emplace_back("train.max_steps=1");
    CHECK(quick_run(quick_config(one), workers, undelayed.path()).parameters == parameters_after(folder, 2));
  }
}

TEST_CASE("delay: a resumed run has the bits of one that did not stop, with a gradient on its way") {
  for (const int workers : {1, 2, 3, 5}) {
    const RunSpec config = delayed_config(demo());
    const TemporaryFolder whole;
    const QuickResult expected = quick_run(config, workers, whole.path());
    for (const std::uint64_t step : {1, 2, 5}) {
      CAPTURE(workers);
      CAPTURE(step);
      const TemporaryFolder rest;
      CHECK(quick_run(config, workers, rest.path(), checkpoint_of(whole, step).string()).parameters ==
            expected.parameters);
    }
  }
}

TEST_CASE("delay: a run on another number of workers takes over the sum of the gradients on their way") {
  const RunSpec config = delayed_config(demo({"train.max_steps=2"}));
  for (const auto& [workers, others] : {std::pair(2, 3), std::pair(3, 2), std::pair(5, 2)}) {
    CAPTURE(workers);
    const TemporaryFolder folder, resumed;
    quick_run(config, workers, folder.path());
    std::vector<Archive> taken(static_cast<std::size_t>(others));
    on_resharded(config, others, checkpoint_of(folder, 2),
                 [&](std::size_t rank, Generation& generation) { generation.scheme->save(taken[rank], "update/"); });
    CHECK(largest_difference(waiting(taken), waiting(saved_ranks(folder, 2, workers))) < 1e-6);
    CHECK(quick_run(delayed_config(demo()), others, resumed.path(), checkpoint_of(folder, 2).string()).exit_code == 0);
  }
}

TEST_CASE("delay: an exchange beside backward has the bits of one behind it, clipped and with skipped steps, too") {
  for (const char* more : {"train.clip=local", "train.non_finite=skip", "optimizer.name=adamw"}) {
    CAPTURE(more);
    // Backward takes 67 ms by the virtual clock, and messages a few: what is hidden does not depend on this machine.
    const Overrides overrides{"compression.method=topk",  "train.clip_norm=0.5", more,
                              "network.model=alpha-beta", "network.gbps=1",      "network.latency_us=1000",
                              "network.compute=zero",     "network.step_ms=100"};
    Overrides overlapped = overrides;
    overlapped.emplace_back("compression.overlap=true");
    const TemporaryFolder first, second;
    const QuickResult expected = quick_run(delayed_config(overrides), 3, first.path());
    const QuickResult result = quick_run(delayed_config(overlapped), 3, second.path());
    CHECK(result.parameters == expected.parameters);
    CHECK_FALSE(contains(read_text_file(second / "summary.json"), "has no effect"));
    CHECK(contains(read_text_file(second / "metrics.jsonl"), "exchange_hidden"));
  }
}

TEST_CASE("delay: a checkpoint with a gradient on its way does not go on without the delay") {
  const TemporaryFolder folder, rest;
  quick_run(delayed_config({"train.max_steps=2"}), 2, folder.path());
  std::string error;
  try {
    quick_run(quick_config(), 2, rest.path(), checkpoint_of(folder, 2).string());
  } catch (const Error& thrown) {
    error = thrown.what();
  }
  CHECK(
      contains(error, "update.delay_steps = 0: the checkpoint holds a gradient that is not exchanged yet: expected 1"));
}

TEST_CASE("delay: plans count the gradient that waits") {
  const RunSpec plain = quick_config(), delayed = delayed_config();
  const layers::Network network = make_network(plain, *load_data(plain).train);
  const RunPlan without = plan_run(plain, network, 3), with = plan_run(delayed, network, 3);
  const std::size_t gradient = network.arena().size() * sizeof(float);
  CHECK(with.checkpoint_bytes == without.checkpoint_bytes + 3 * gradient);
  CHECK(with.memory_total() == without.memory_total() + gradient + 2 * gradient);  // and of a checkpoint
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
