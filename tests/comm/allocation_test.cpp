// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "tests/comm/cases.h"
#include "tests/comm/sparse_support.h"
#include "tests/comm/support.h"
#include "tests/comm/tcp_support.h"
#include "tests/support/allocation_counter.h"

namespace dragonn::comm::test {
namespace {

constexpr std::size_t kNumel = 5000;
constexpr std::size_t kSteps = 40;

/// State that a rank keeps from step to step.
struct Step {
  std::vector<float> acc = std::vector<float>(kNumel, 1.0f);
  SparseVector selected;
  SparseReduction out;
  std::vector<std::unique_ptr<SparseCollective>> collectives;
  std::unique_ptr<GroupReduce> reduce;
  std::vector<std::uint64_t> counters = std::vector<std::uint64_t>(4);
  codec::CodecChoice coding;
  std::size_t period = kSteps;  // of the sizes

  explicit Step(codec::CodecChoice of_lists = {}) : coding(std::move(of_lists)) {
    for (const char* layout : {"fixed", "padded", "unpadded"}) {
      collectives.push_back(make_collective("allgather", kNumel, {{"layout", layout}}));
    }
    collectives.push_back(make_collective("allgather", kNumel, {{"decode", "dense"}}));
    const auto& registry = Registry<SparseCollectiveEntry>::instance();
    for (const std::string& name : registry.names()) {
      if (!registry.at(name).sends(Registry<codec::ValueCodecEntry>::instance().at(coding.values.name))) continue;
      collectives.push_back(make_collective(name, kNumel));
    }
    if (!coding.is_lossy()) collectives.push_back(make_collective("dense", kNumel, {{"algorithm", "rabenseifner"}}));
    selected.resize_discard(400);
  }

  void run(Communicator& communicator, std::size_t number) {
    communicator.set_label("a label that is too long for the small string buffer");
    // Sizes that differ between ranks and steps, as threshold selections do.
    selected.resize_discard(150 + 10 * ((number % period * 7 + unsigned_rank(communicator) * 3) % 10));
    // Spread over the bucket: the parts in the regions of the ranks vary as the whole does.
    const auto distance = static_cast<std::uint32_t>(kNumel / selected.size());
    for (std::uint32_t i = 0; i < selected.size(); ++i) {
      selected.indices.data()[i] = i * distance + static_cast<std::uint32_t>(communicator.rank());
      selected.values.data()[i] = 1.0f;
    }
    if (!reduce) reduce = std::make_unique<GroupReduce>(communicator, coding);
    const ReduceContext context{.step = number, .k = 400, .density = 0.08};
    for (const auto& collective : collectives)
      reduce->run({collective.get(), &context, std::span<const float>(acc), &selected, &out});
    communicator.allreduce_sum(std::span<std::uint64_t>(counters));
    communicator.allreduce_max(std::span<std::uint64_t>(counters));
    communicator.barrier();
  }
};

/// Runs the steps of all ranks with `run_ranks`, and checks what each allocates.
template <class RunRanks>
void check_steps(const RunRanks& run_ranks, const codec::CodecChoice& coding = {}) {
  const testing::AllocationCounter counter;
  for (const int world : {1, 3, 4, 8}) {
    CAPTURE(world);
    std::vector<std::size_t> made(static_cast<std::size_t>(world));
    std::vector<std::size_t> warm_up(made);
    run_ranks(world, [&](Communicator& communicator) {
      const std::size_t before = counter.count_of_thread();
      Step step(coding);
      // Two turns of every leader of cltk: each sends to ranks that nobody else sends to.
      const auto warm_up_steps = 2 * static_cast<std::size_t>(world);
      // What a leader of cltk sends in a code may outgrow all earlier messages between two ranks: every leader's sizes
      // come in the warm-up.
      if (Registry<codec::ValueCodecEntry>::instance().at(coding.values.name).carries_sums) step.period = warm_up_steps;
      for (std::size_t number = 0; number < warm_up_steps; ++number) step.run(communicator, number);
      const std::size_t warm = counter.count_of_thread();
      for (std::size_t number = warm_up_steps; number < kSteps; ++number) step.run(communicator, number);
      made[unsigned_rank(communicator)] = counter.count_of_thread() - warm;
      warm_up[unsigned_rank(communicator)] = warm - before;
    });
    CHECK(made == std::vector<std::size_t>(made.size(), 0));
    CHECK(warm_up[0] > 0);  // the counting works
  }
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("local: after two rounds nothing allocates") {
    check_steps([](int world, const auto& fn) { run_local(world, {}, fn); });
  }
  TEST_CASE("coded lists: after two rounds nothing allocates") {
    for (const char* values : {"int8", "float16"}) {
      CAPTURE(values);
      check_steps([](int world, const auto& fn) { run_local(world, {}, fn); }, coding_of("smallest", values));
    }
  }
  TEST_CASE("tcp: after two rounds nothing allocates") {
    check_steps([](int world, const auto& fn) { run_tcp_threads(world, 60, fn); });
  }
}

}  // namespace dragonn::comm::test
