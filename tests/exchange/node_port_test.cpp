// SPDX-License-Identifier: MIT
/// Bytes through a node's port to other nodes: with two levels several times fewer than with one.
#include <algorithm>
#include <atomic>
#include <deque>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/rng.h"
#include "tests/comm/forwarding_communicator.h"
#include "tests/exchange/combinations.h"

namespace dragonn::exchange::testing {
namespace {

/// Counts what goes to other nodes.
class PortMeter final : public comm::test::ForwardingCommunicator {
 public:
  PortMeter(comm::Communicator& inner, const comm::Nodes& nodes, std::atomic<std::uint64_t>& bytes)
      : ForwardingCommunicator(inner), nodes_(nodes), bytes_(bytes) {}

 protected:
  comm::Request start_send(int destination, int tag, std::span<const std::byte> message) override {
    if (nodes_.node_of(destination) != nodes_.node_of(rank())) bytes_ += message.size();
    return keep(inner().isend(destination, tag, View<const std::byte>(message)));
  }
  comm::Request start_receive(int source, int tag, std::span<std::byte> buffer) override {
    return keep(inner().irecv(source, tag, View<std::byte>(buffer)));
  }
  std::size_t finish(const comm::Request& request) override { return inner().wait(requests_[request.id]); }

 private:
  comm::Request keep(const comm::Request& request) {
    requests_.push_back(request);
    return {.id = requests_.size() - 1, .is_receive = request.is_receive};
  }

  const comm::Nodes& nodes_;
  std::atomic<std::uint64_t>& bytes_;
  std::deque<comm::Request> requests_;
};

constexpr std::uint64_t kSteps = 2;

/// Returns the bytes that leave the busiest node in a step.
double port_bytes(const Combination& combination, BucketRules::Grouping grouping, const comm::Nodes& nodes,
                  bool has_levels) {
  std::vector<std::atomic<std::uint64_t>> bytes(static_cast<std::size_t>(nodes.count()));
  comm::run_local(nodes.ranks(), {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    PortMeter meter(communicator, nodes, bytes[static_cast<std::size_t>(nodes.node_of(communicator.rank()))]);
    ParameterArena arena;
    for (int layer = 0; layer < 16; ++layer)
      arena.declare("layer" + std::to_string(layer) + ".weight", {50, 40}, ParameterRole::kWeight);
    arena.allocate();
    ExchangeRules rules = rules_of(combination);
    rules.buckets.grouping = grouping;
    rules.fusion.bytes = 25 << 20;
    if (has_levels) rules.nodes = nodes;
    if (has_levels) rules.buckets.pieces = static_cast<std::size_t>(nodes.places());
    GradientExchange exchange(rules, arena, meter);
    std::vector<float> gradient(arena.size());
    StepTimers timers;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      Rng rng(5, "node port", {step, static_cast<std::uint64_t>(communicator.rank())});
      for (float& value : gradient) value = static_cast<float>(rng.uniform()) - 0.5f;
      exchange.run({.step = step, .density = 0.01}, View<const float>(std::span<const float>(gradient)), timers);
      exchange.commit(timers);
    }
  });
  return static_cast<double>(
             std::ranges::max_element(bytes, {}, [](const auto& sent) { return sent.load(); })->load()) /
         kSteps;
}

}  // namespace

TEST_SUITE_BEGIN("exchange");

// In a ring of neighbouring ranks one worker of each node sends to another node, also with one level.
TEST_CASE("on 8 nodes of 8 workers two levels send several times fewer bytes through a node's port") {
  const comm::Nodes nodes = comm::Nodes::of_size(64, 8);
  struct Method {
    Combination parts;
    BucketRules::Grouping grouping;
    double factor;
  };
  using Grouping = BucketRules::Grouping;
  for (const Method& method : {Method{{"topk", "allgather", "residual"}, Grouping::kTensor, 6},
                               Method{{"dgc", "allgather", "momentum_correction"}, Grouping::kTensor, 6},
                               Method{{"dragonn", "allgather", "residual"}, Grouping::kTensor, 6},
                               Method{{"oktopk", "oktopk", "residual"}, Grouping::kModel, 6},
                               Method{{"topk", "gtopk", "residual"}, Grouping::kModel, 1}}) {
    CAPTURE(method.parts.name());
    const double flat = port_bytes(method.parts, method.grouping, nodes, false);
    const double two = port_bytes(method.parts, method.grouping, nodes, true);
    CHECK(two * method.factor <= flat);
  }
}

TEST_SUITE_END();

}  // namespace dragonn::exchange::testing
