// SPDX-License-Identifier: MIT
/// Tests of staging: selections come to the memory of messages, and outcomes to that of gradients, without allocations.
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "exchange/bucket_form.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/devices.h"

namespace dragonn::exchange {
namespace {

using dragonn::test::on_device;
using dragonn::test::to_host;
using dragonn::testing::AllocationCounter;

struct Entries {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
};

Entries some_entries(std::size_t size, std::uint32_t first) {
  Entries entries{std::vector<std::uint32_t>(size), std::vector<float>(size)};
  std::iota(entries.indices.begin(), entries.indices.end(), first);
  std::iota(entries.values.begin(), entries.values.end(), 0.5f);
  return entries;
}

void put(const Entries& entries, SparseVector& target) {
  target.resize_discard(entries.indices.size());
  kernels::transfer(View<const std::uint32_t>(entries.indices), target.indices.view());
  kernels::transfer(View<const float>(entries.values), target.values.view());
}

bool holds(const SparseVector& list, const Entries& entries) {
  return to_host(list.indices.view()) == entries.indices && to_host(list.values.view()) == entries.values;
}

TEST_SUITE("exchange") {
  DRAGONN_DEVICE_TEST(
      "what is staged is the same at its other end, step after step, and shorter lists take no memory") {
    const AllocationCounter counter;
    const MemoryPlace messages = host_memory_for(device);
    SelectionStaging selections(messages);
    OutcomeStaging outcomes(device);
    SparseVector selected(device);
    comm::SparseReduction reduction(messages);
    for (const std::size_t size : {1000, 10, 999}) {
      const Entries mine = some_entries(size, 3), sum = some_entries(size / 2, 8), back = some_entries(size / 5, 1);
      put(mine, selected);
      reduction.reset(1);
      put(sum, reduction.sum);
      put(back, reduction.returned);
      reduction.contributed.resize_discard(size);
      kernels::transfer(View<const std::uint32_t>(mine.indices), reduction.contributed.view());
      const std::size_t before = AllocationCounter::count();
      const bool is_copying = selections.start(selected);
      kernels::synchronize(device);
      const SparseVector& outgoing = selections.outgoing(selected);
      const comm::SparseReduction& outcome = outcomes.to_device(reduction);
      const std::size_t allocations = AllocationCounter::count() - before;
      CHECK(is_copying == !device.is_cpu());
      CHECK(outgoing.device().is_cpu());
      CHECK(holds(outgoing, mine));
      CHECK(outcome.sum.device() == device);
      CHECK(holds(outcome.sum, sum));
      CHECK(holds(outcome.returned, back));
      CHECK(to_host(outcome.contributed.view()) == mine.indices);
      CHECK(outcome.dense_sum.size() == 0);
      CHECK((size == 1000 || allocations == 0));
    }
    CHECK((&selections.outgoing(selected) == &selected) == device.is_cpu());
  }
}

}  // namespace
}  // namespace dragonn::exchange
