// SPDX-License-Identifier: MIT
/// Tests that gradients on a device are exchanged like those of the host, through host memory and by NCCL.
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "comm/device_transport.h"
#include "comm/local/local.h"
#include "core/rng.h"
#include "tests/exchange/combinations.h"
#include "tests/support/devices.h"

namespace dragonn::exchange::testing {
namespace {

using dragonn::test::to_host;

constexpr std::uint64_t kSteps = 3;

/// The workers of an exchange, and the place of each rank's gradient.
struct Workers {
  int count = 3;
  Device device = {};
  bool nccl = false;  ///< every rank has a GPU of its own

  Device of(int rank) const { return nccl ? Device{DeviceType::kCuda, rank} : device; }
};

/// The sum and the residual of every bucket after every step, one after the other.
struct Trace {
  std::vector<float> values;
  std::vector<std::uint32_t> indices;
  std::vector<std::uint64_t> selected;

  template <class T>
  static void append(std::vector<T>& target, const std::vector<T>& source) {
    target.insert(target.end(), source.begin(), source.end());
  }
  void add(const GradientExchange& exchange) {
    for (std::size_t bucket = 0; bucket < exchange.buckets().size(); ++bucket) {
      const comm::SparseReduction& reduction = exchange.reduction(bucket);
      append(values, to_host(reduction.is_dense ? reduction.dense_sum.view() : reduction.sum.values.view()));
      if (!reduction.is_dense) append(indices, to_host(reduction.sum.indices.view()));
      append(values, to_host(exchange.memory(bucket).residual()));
    }
    append(selected, exchange.counts().selected);
  }
};

/// Small integers, many of them zero: their sums are exact, so that no order of additions shows.
std::vector<float> gradient_of(std::size_t numel, int rank, std::uint64_t step) {
  Rng rng(13, "device exchange", {step, static_cast<std::uint64_t>(rank)});
  std::vector<float> gradient(numel);
  for (float& value : gradient) value = rng.below(3) == 0 ? 0.0f : static_cast<float>(rng.below(33)) - 16.0f;
  return gradient;
}

/// Returns the traces of every rank.
std::vector<Trace> run(const Combination& combination, const Workers& workers) {
  std::vector<Trace> traces(static_cast<std::size_t>(workers.count));
  comm::run_local(workers.count, {}, [&](comm::Communicator& communicator) {
    const Device device = workers.of(communicator.rank());
    std::unique_ptr<comm::DeviceTransport> transport;
    if (workers.nccl) transport = comm::make_nccl_transport(communicator, device, /*timeout_s=*/20);
    communicator.set_device_transport(transport.get());
    ParameterArena arena(device);
    arena.declare("a.weight", {23, 17}, ParameterRole::kWeight);
    arena.declare("a.bias", {17}, ParameterRole::kBias);
    arena.allocate();
    ExchangeRules rules = rules_of(combination);
    rules.momentum = 0.5f;
    GradientExchange exchange(rules, arena, communicator);
    StepTimers timers;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const std::vector<float> gradient = gradient_of(arena.size(), communicator.rank(), step);
      kernels::transfer(View<const float>(gradient), arena.gradients());
      exchange.run({.step = step, .density = 0.1}, arena.gradients(), timers);
      exchange.commit(timers);
      traces[static_cast<std::size_t>(communicator.rank())].add(exchange);
    }
    if (transport != nullptr) transport->finish();
    communicator.set_device_transport(nullptr);
  });
  return traces;
}

void expect_equal(const Combination& combination, const Workers& workers) {
  INFO(combination.name(), " on ", workers.count, " workers");
  const std::vector<Trace> expected = run(combination, {.count = workers.count}), found = run(combination, workers);
  for (std::size_t rank = 0; rank < expected.size(); ++rank) {
    INFO("rank ", rank);
    CHECK(found[rank].indices == expected[rank].indices);
    CHECK(found[rank].values == expected[rank].values);
    CHECK(found[rank].selected == expected[rank].selected);
  }
}

/// Returns whether there are fewer GPUs, and reports that as a skipped test does.
[[maybe_unused]] bool gpus_are_missing(int wanted) {
  if (dragonn::test::gpu_is_missing()) return true;
  const int count = kernels::device_count(DeviceType::kCuda);
  if (count < wanted) MESSAGE("skipped: ", wanted, " GPUs are needed, here are ", count);
  return count < wanted;
}

TEST_SUITE("exchange") {
  DRAGONN_DEVICE_TEST("gradients are exchanged on any device as on the host, bit for bit") {
    const std::vector<Combination> combinations{{"topk", "allgather", "residual"},
                                                {"topk", "index_union", "residual"},
                                                {"topk", "gtopk", "residual"},
                                                {"topk", "dsa", "residual"},
                                                {"topk", "oktopk", "residual"},
                                                {"cltk", "cltk", "residual"},
                                                {"randomk", "allgather", "residual"},
                                                {"dgc", "allgather", "momentum_correction"},
                                                {"dragonn", "allgather", "momentum_correction"},
                                                {"none", "allgather", "residual", "signsgd"}};
    for (const Combination& combination : combinations) expect_equal(combination, {.device = device});
  }

#ifdef DRAGONN_WITH_CUDA
  TEST_CASE("gpu: gradients are exchanged by NCCL as by messages, bit for bit") {
    for (const int workers : {1, 2, 3, 5}) {
      if (gpus_are_missing(workers)) return;
      for (const Combination& combination : std::vector<Combination>{{"topk", "dense", "residual"},
                                                                     {"topk", "allgather", "residual"},
                                                                     {"topk", "index_union", "residual"},
                                                                     {"topk", "gtopk", "residual"},
                                                                     {"topk", "dsa", "residual"},
                                                                     {"topk", "oktopk", "residual"},
                                                                     {"cltk", "cltk", "residual"},
                                                                     {"exdyna", "exdyna", "residual"},
                                                                     {"dragonn", "allgather", "momentum_correction"}})
        expect_equal(combination, {.count = workers, .nccl = true});
    }
  }

  TEST_CASE("gpu: a rank that waits by NCCL for one that does not come says so at its deadline, and where it was") {
    if (gpus_are_missing(2)) return;
    std::string said;
    CHECK_THROWS_AS(comm::run_local(2, {},
                                    [&](comm::Communicator& communicator) {
                                      const Device device{DeviceType::kCuda, communicator.rank()};
                                      const auto transport =
                                          comm::make_nccl_transport(communicator, device, /*timeout_s=*/2);
                                      communicator.set_label("step 7");
                                      Buffer<float> values = dragonn::test::on_device(std::vector<float>{1, 2}, device);
                                      const View<float> view = values.view();
                                      transport->allreduce_sum(std::span(&view, 1));
                                      CHECK(to_host(values.view()) == std::vector<float>{2, 4});
                                      if (communicator.rank() == 1) return;
                                      try {
                                        transport->allreduce_sum(std::span(&view, 1));
                                      } catch (const CommError& error) {
                                        said = error.what();
                                        throw;
                                      }
                                    }),
                    CommError);
    CHECK(said ==
          "rank 0 of 2 on cuda:0, 'step 7': allreduce over NCCL with all ranks: not done within the deadline of 2 s "
          "(comm.timeout_s)");
  }

  TEST_CASE("gpu: NCCL refuses two ranks on one GPU") {
    if (gpus_are_missing(1)) return;
    CHECK_THROWS_AS(comm::run_local(2, {},
                                    [&](comm::Communicator& communicator) {
                                      comm::make_nccl_transport(communicator, {DeviceType::kCuda, 0}, 2);
                                    }),
                    CommError);
  }
#endif
}

}  // namespace
}  // namespace dragonn::exchange::testing
