// SPDX-License-Identifier: MIT
/// Tests that a training step of a whole run allocates nothing once it is warm.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/exchange/combinations.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/devices.h"
#include "tests/trainer/quick_run.h"

namespace dragonn::trainer::testing {
namespace {

using namespace exchange::testing;

using dragonn::testing::AllocationCounter;

/// Returns the allocations of a run of that many steps which logs, evaluates and saves at its end alone.
std::size_t allocations_of_run(std::vector<std::string> overrides, int steps) {
  overrides.insert(overrides.end(),
                   {"logging.every_steps=1000", "train.epochs=20", fmt::format("train.max_steps={}", steps)});
  const RunSpec config = quick_config(overrides);
  const TemporaryFolder folder;
  const std::size_t before = AllocationCounter::count();
  quick_run(config, 2, folder.path());
  return AllocationCounter::count() - before;
}

void check_allocations(const std::vector<std::string>& overrides) {
  // Starting and ending a run varies by an allocation or two (lengths of paths and numbers, threads that meet); one
  // allocation per step would make twenty of difference, ten on each rank.
  std::size_t shorter = allocations_of_run(overrides, 20);
  std::size_t longer = allocations_of_run(overrides, 30);
  if (longer >= shorter + 10) {
    // Selections of a method that adapts may have outgrown buffers once, which double; not for ever.
    shorter = longer;
    longer = allocations_of_run(overrides, 40);
  }
  CHECK(longer < shorter + 10);
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("more steps allocate no more: load, forward, backward, exchange, update") {
  const AllocationCounter counter;
  for (const Combination& combination : pairwise_combinations()) {
    CAPTURE(combination.name());
    check_allocations({"compression.method=" + combination.method(), "compression.collective=" + combination.collective,
                       "compression.memory=" + combination.memory});
  }
}

DRAGONN_DEVICE_TEST(
    "more steps allocate no more where the exchange overlaps backward, of one batch or of micro-batches") {
  const AllocationCounter counter;
  for (const char* method : {"topk", "oktopk", "signsgd"}) {
    for (const int micro_batches : {1, 2}) {
      CAPTURE(method);
      CAPTURE(micro_batches);
      check_allocations(on_device(
          device, {fmt::format("compression.method={}", method), "compression.overlap=true",
                   "compression.bucket=tensor", fmt::format("train.gradient_accumulation={}", micro_batches)}));
    }
  }
}

DRAGONN_DEVICE_TEST("more steps allocate no more on any device, with methods whose selections have settled") {
  const AllocationCounter counter;
  for (const char* method : {"dense", "dgc", "dragonn", "gtopk", "cltk", "qsgd"}) {
    CAPTURE(method);
    check_allocations(on_device(device, {fmt::format("compression.method={}", method)}));
  }
  check_allocations(on_device(device, {"compression.method=topk", "update.scheme=local", "update.inner_steps=2"}));
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
