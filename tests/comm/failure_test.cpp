// SPDX-License-Identifier: MIT
/// A rank that fails or hangs in the middle of a collective ends all ranks, with an error that names rank, collective
/// and step.
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "comm/local/local.h"
#include "tests/comm/forwarding_communicator.h"
#include "tests/comm/sparse_support.h"
#include "tests/comm/tcp_support.h"
#include "tests/comm/timing.h"

namespace dragonn::comm::test {
namespace {

constexpr std::size_t kNumel = 61;
constexpr std::size_t kCount = 6;
constexpr const char* kLabel = "step 12, bucket 3";

/// Passes everything on to another communicator, and calls `disturb` ahead of one of the operations.
class DisturbedCommunicator final : public ForwardingCommunicator {
 public:
  static constexpr std::size_t kNever = ~std::size_t{0};

  DisturbedCommunicator(Communicator& inner, std::size_t operation, std::function<void()> disturb)
      : ForwardingCommunicator(inner), due_(operation), disturb_(std::move(disturb)) {}

  std::size_t operations() const { return operations_; }

 protected:
  Request start_send(int destination, int tag, std::span<const std::byte> message) override {
    begin_operation();
    return inner().isend(destination, tag, message);
  }
  Request start_receive(int source, int tag, std::span<std::byte> buffer) override {
    begin_operation();
    return inner().irecv(source, tag, buffer);
  }
  std::size_t finish(const Request& request) override {
    begin_operation();
    Request same = request;
    return inner().wait(same);
  }

 private:
  /// The group knows the inner communicator, which must describe this one's operation.
  void begin_operation() {
    inner().set_label(activity().describe());
    if (operations_++ == due_) disturb_();
  }

  std::size_t due_;
  std::function<void()> disturb_;
  std::size_t operations_ = 0;
};

/// A collective in one of its modes, with selections that it takes.
struct Mode {
  std::string name;
  Overrides settings = {};
  SelectionTraits traits = {};
};

std::vector<Mode> variants() {
  const SelectionTraits shared{.fixed_size = true, .shared_indices = true};
  return {{"dense", {{"algorithm", "ring"}}},
          {"dense", {{"algorithm", "rabenseifner"}}},
          {"dense", {{"algorithm", "native"}}},
          {"allgather", {{"layout", "fixed"}}},
          {"allgather", {{"layout", "padded"}}},
          {"allgather", {{"layout", "unpadded"}}},
          {"allgather", {{"layout", "unpadded"}, {"route", "direct"}}},
          {"allgather", {{"decode", "dense"}}},
          {"allgather", {}, shared},
          {"index_union"},
          {"index_union", {}, shared},
          {"dsa", {{"switch", 0.0}}},
          {"dsa", {{"switch", 1.0}}},
          {"gtopk", {{"put_back", "merger"}}},
          {"gtopk", {{"put_back", "exact"}}},
          {"gtopk", {{"put_back", "naive"}}},
          {"gtopk", {{"put_back", "paper"}}},
          {"oktopk", {{"balance", "never"}}},
          {"oktopk", {{"balance", "always"}}},
          {"oktopk", {{"global_period", 1}, {"repartition_period", 1}}},
          {"exdyna", {}, {.partitioned = true}},
          {"cltk", {}, {.leader_only = true}},
          {"cltk"}};
}

/// Every rank's share of the bucket, or entries all over it.
SparseVector select(const Communicator& communicator, const SelectionTraits& traits, std::span<const float> acc) {
  const std::size_t me = unsigned_rank(communicator), ranks = unsigned_size(communicator);
  Indices indices;
  for (std::uint32_t i = 0; i < acc.size(); ++i) {
    const bool mine = traits.partitioned      ? i % ranks == me && indices.size() < kCount
                      : traits.shared_indices ? i % 9 == 0
                                              : (i + me) % 10 == 0;
    if (mine && indices.size() < kCount) indices.push_back(i);
  }
  return entries_at(acc, indices);
}

/// Exchanges step after step under one label, the one that is disturbed being the last: reuse steps of oktopk too.
class Exchanges {
 public:
  Exchanges(const Mode& variant, const Communicator& communicator)
      : variant_(variant), collective_(make_collective(variant.name, kNumel, variant.settings)), acc_(kNumel) {
    for (std::size_t i = 0; i < kNumel; ++i) acc_[i] = 1.0f + static_cast<float>((i * 7) % 13);
    selected_ = select(communicator, variant.traits, acc_);
  }
  void run(Communicator& communicator) {
    const ReduceContext context{.step = step_++, .k = kCount, .density = 0.1, .selection = variant_.traits};
    reduce(communicator, *collective_, context, acc_, selected_, out_);
  }

 private:
  const Mode& variant_;
  std::unique_ptr<SparseCollective> collective_;
  std::vector<float> acc_;
  SparseVector selected_;
  SparseReduction out_;
  std::uint64_t step_ = 0;
};

/// Messages that a rank starts and ends in the second exchange: sends, receives and waits.
std::size_t operations_of(const Mode& variant, int world, int rank) {
  std::size_t operations = 0;
  run_local(world, {.timeout_s = 60}, [&](Communicator& c) {
    DisturbedCommunicator counting(c, DisturbedCommunicator::kNever, {});
    Exchanges exchanges(variant, c);
    exchanges.run(c);
    exchanges.run(counting);
    if (c.rank() == rank) operations = counting.operations();
  });
  return operations;
}

/// Runs a group that ends with an error; returns the error of each rank.
using ErrorsOfRanks =
    std::function<std::vector<std::string>(int world, double timeout_s, const std::function<void(Communicator&)>& fn)>;

std::vector<std::string> local_errors(int world, double timeout_s, const std::function<void(Communicator&)>& fn) {
  std::vector<std::string> errors(static_cast<std::size_t>(world));
  CHECK_THROWS(run_local(world, {.timeout_s = timeout_s}, [&](Communicator& c) {
    try {
      fn(c);
    } catch (const std::exception& error) {
      errors[unsigned_rank(c)] = error.what();
      throw;
    }
  }));
  return errors;
}

/// The disturbance of a rank, and the handling of errors.
struct Disturbance {
  int victim = 0;
  std::size_t operation = 0;  ///< operation of its second exchange
  std::function<void()> disturb = {};
  std::function<void()> on_error = [] {};
};

/// Runs exchanges until a rank ends them. Returns the error of each rank.
std::vector<std::string> errors_of(const ErrorsOfRanks& errors_of_ranks, const Mode& variant, int world,
                                   double timeout_s, const Disturbance& disturbance) {
  return errors_of_ranks(world, timeout_s, [&](Communicator& c) {
    try {
      Exchanges exchanges(variant, c);
      exchanges.run(c);
      const bool is_victim = c.rank() == disturbance.victim;
      DisturbedCommunicator disturbed(c, is_victim ? disturbance.operation : DisturbedCommunicator::kNever,
                                      disturbance.disturb);
      disturbed.set_label(kLabel);
      for (;;) exchanges.run(disturbed);
    } catch (const std::exception&) {
      disturbance.on_error();
      throw;
    }
  });
}

/// All ranks learn of a rank that throws there.
void check_throw(const ErrorsOfRanks& errors_of_ranks, const Mode& variant, int world, int victim,
                 std::size_t operation) {
  CAPTURE(variant.name);
  CAPTURE(world);
  CAPTURE(operation);
  const std::vector<std::string> errors = errors_of(
      errors_of_ranks, variant, world, 60, {victim, operation, [] { throw std::runtime_error("the memory is gone"); }});
  for (int rank = 0; rank < world; ++rank) {
    const std::string& error = errors[static_cast<std::size_t>(rank)];
    CAPTURE(error);
    CHECK(contains(error, "the memory is gone"));
    if (rank == victim) continue;
    CHECK(contains(error, "rank " + std::to_string(victim) + " failed"));
    CHECK(contains(error, "'" + std::string(kLabel) + "', in " + variant.name));
  }
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("local: a rank that throws at any point of a collective ends all, with its rank, collective and step") {
    for (const Mode& variant : variants()) {
      for (const int world : {2, 3, 4, 5}) {
        for (const int victim : {0, world - 1}) {
          const std::size_t operations = operations_of(variant, world, victim);
          REQUIRE(operations > 0);
          for (const std::size_t operation : {std::size_t{0}, operations / 2, operations - 1}) {
            check_throw(local_errors, variant, world, victim, operation);
          }
        }
      }
    }
  }

  TEST_CASE("tcp: a rank that throws at any point of a collective ends all, with its rank, collective and step") {
    int turn = 0;
    for (const Mode& variant : variants()) {
      for (const int world : {2, 3, 5}) {
        const int victim = turn % world;
        const std::size_t operations = operations_of(variant, world, victim);
        check_throw(tcp_errors, variant, world, victim, operations * static_cast<std::size_t>(turn % 4) / 4);
        ++turn;
      }
    }
  }

  TEST_CASE("local: a rank that hangs in a collective is named by those who wait, when the deadline has passed") {
    constexpr int kWorld = 4, kVictim = 2;
    std::string done;
    for (const Mode& variant : variants()) {
      if (variant.name == done) continue;  // one mode of each
      done = variant.name;
      CAPTURE(variant.name);
      std::atomic<int> told = 0;
      const auto hang = [&] { await([&] { return told == kWorld - 1; }); };
      std::size_t operations = 0;
      // All but the victim must be waiting when it has passed.
      const double timeout_s = deadline_beside(1, [&] { operations = operations_of(variant, kWorld, kVictim); });
      const std::vector<std::string> errors =
          errors_of(local_errors, variant, kWorld, timeout_s, {kVictim, operations / 2, hang, [&] { ++told; }});
      for (const std::string& error : errors) {
        CAPTURE(error);
        CHECK(contains(error, fmt::format("nothing for {} s (comm.timeout_s); rank 2 is at", timeout_s)));
        CHECK(contains(error, "'" + std::string(kLabel) + "', in " + variant.name));
      }
    }
  }
}

}  // namespace dragonn::comm::test
