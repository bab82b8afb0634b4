// SPDX-License-Identifier: MIT
/// Tests of the collectives' predictions, and of size-only exchanges, against exchanges on a virtual cluster.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "comm/agreement.h"
#include "comm/local/local.h"
#include "comm/sparse/batch_decoder.h"
#include "comm/sparse/exchange_cost.h"
#include "comm/sparse/sized_lists.h"
#include "comm/sparse/sparse_collective.h"
#include "core/rng.h"
#include "tests/comm/cases.h"
#include "tests/comm/sparse_support.h"
#include "tests/support/held_bytes.h"

namespace dragonn::comm::test {
namespace {

const NetworkModel kNetwork{.latency_seconds = 1e-4, .bytes_per_second = 1e8};
constexpr std::size_t kPerRegion = 3;
constexpr std::size_t kRegion = 50;

/// One exchange, over the ranks.
struct Observed {
  double seconds = 0;  ///< of the slowest rank
  double mean_bytes = 0;
  std::vector<Traffic> payload, header;
  ExchangeSizes sizes = {};
};

/// A collective, and the selections that it gets.
struct Subject {
  std::string collective;
  Overrides settings = {};
  SelectionTraits traits = {};
};

/// Adds the registered collectives that no subject names, with their defaults and selections that they take.
std::vector<Subject> with_all_others(std::vector<Subject> subjects) {
  const std::vector<SelectionTraits> kinds{{.at_most_k = true}, {.partitioned = true}};
  for (const std::string& name : Registry<SparseCollectiveEntry>::instance().names()) {
    if (std::ranges::find(subjects, name, &Subject::collective) != subjects.end()) continue;
    const auto& refuses = Registry<SparseCollectiveEntry>::instance().at(name).refuses;
    const auto taken = std::ranges::find_if(kinds, [&](const SelectionTraits& kind) { return refuses(kind).empty(); });
    if (taken != kinds.end()) subjects.push_back({name, {}, *taken});
  }
  return subjects;
}

/// Selects equally many entries in the region of every rank; disjoint if the ranks share the bucket. Magnitudes differ.
SparseVector even_selection(std::size_t ranks, std::size_t me, const SelectionTraits& traits, std::span<float> acc) {
  Rng rng(3, "acc", {me});
  for (float& value : acc) value = 1.0f + rng.uniform();
  Indices indices;
  for (std::size_t region = 0; region < ranks; ++region) {
    if (traits.partitioned && region != me) continue;
    for (std::size_t i = 0; i < kPerRegion; ++i) {
      indices.push_back(static_cast<std::uint32_t>(region * kRegion + (traits.partitioned ? 0 : me % 7) + i));
    }
  }
  return entries_at(acc, indices);
}

/// The last of `steps` exchanges of the same selections.
Observed observe(int world, const Subject& subject, bool payload_only = false, std::uint64_t steps = 1) {
  const auto ranks = static_cast<std::size_t>(world);
  const std::size_t k = ranks * kPerRegion;
  Observed observed{.payload = std::vector<Traffic>(ranks), .header = std::vector<Traffic>(ranks)};
  std::vector<double> seconds(ranks), entries(ranks);
  run_local(world, {.timeout_s = 60, .network = kNetwork, .compute = Compute::kZero}, [&](Communicator& communicator) {
    const std::size_t me = unsigned_rank(communicator);
    std::vector<float> acc(ranks * kRegion);
    const SparseVector selected = even_selection(ranks, me, subject.traits, acc);
    const auto collective = make_collective(subject.collective, acc.size(), subject.settings);
    GroupReduce group(payload_only ? make_sized_lists(communicator) : make_list_transport(communicator));
    if (payload_only) collective->set_operations(make_sized_operations(communicator, acc.size()));
    for (std::uint64_t step = 0; step < steps; ++step) {
      {
        const ClockPause pause(communicator.clock());
        communicator.clock().advance_to(latest_moment(communicator));
      }
      const double start = communicator.now();
      const ReduceContext context{.step = step, .k = k, .selection = subject.traits};
      const TrafficMeter payload(communicator, Phase::kExchange), header(communicator, Phase::kHeader);
      SparseReduction out;
      group.run({collective.get(), &context, std::span<const float>(acc), &selected, &out});
      seconds[me] = communicator.now() - start;
      observed.payload[me] = payload.moved();
      observed.header[me] = header.moved();
      entries[me] = static_cast<double>(subject.collective == "dense" ? acc.size() : out.sum.size());
    }
  });
  observed.seconds = std::ranges::max(seconds);
  for (const Traffic& traffic : observed.payload) {
    observed.mean_bytes += static_cast<double>(traffic.bytes_sent) / static_cast<double>(world);
  }
  const auto selected = static_cast<double>(subject.traits.partitioned ? kPerRegion : k);
  observed.sizes = {.numel = ranks * kRegion,
                    .k = k,
                    .ranks = world,
                    .selected = selected,
                    .largest = selected,
                    .global = entries[0],
                    .selection = subject.traits};
  return observed;
}

void check_prediction(int world, const Subject& subject) {
  CAPTURE(world);
  CAPTURE(subject.collective);
  const Observed observed = observe(world, subject);
  const auto& entry = Registry<SparseCollectiveEntry>::instance().at(subject.collective);
  Settings settings(entry.settings);
  for (const auto& [name, value] : subject.settings) settings.set(name, value);
  const Prediction prediction = entry.predict(settings, observed.sizes);
  CHECK(observed.mean_bytes == doctest::Approx(prediction.bytes_sent).epsilon(1e-9));
  CHECK(observed.seconds ==
        doctest::Approx((prediction.payload + prediction.header).seconds(kNetwork)).epsilon(0.01).scale(1e-9));
}

/// Exchanges selections at random places, whose lists are coded. Returns sent over predicted bytes, mean over ranks.
double sent_over_predicted(int world, const std::string& name, const codec::CodecChoice& coding) {
  constexpr std::size_t kNumel = 60000, kSelected = 3000;
  std::vector<double> sent(static_cast<std::size_t>(world)), entries(sent);
  run_local(world, {.timeout_s = 60}, [&](Communicator& communicator) {
    const std::size_t me = unsigned_rank(communicator);
    Rng rng(3, "coded", {me});
    std::vector<float> acc(kNumel), order(kNumel);
    for (float& value : acc) value = rng.normal();
    for (float& value : order) value = 1.0f + rng.uniform();
    const SparseVector selected = entries_at(acc, indices_of(largest_entries(order, kSelected).indices.view()));
    const auto collective = make_collective(name, kNumel);
    GroupReduce group(communicator, coding);
    SparseReduction out;
    const ReduceContext context{.k = kSelected, .density = 0.05};
    const TrafficMeter meter(communicator, Phase::kExchange);
    group.run({collective.get(), &context, std::span<const float>(acc), &selected, &out});
    sent[me] = static_cast<double>(meter.moved().bytes_sent);
    entries[me] = static_cast<double>(out.sum.size());
  });
  const auto& entry = Registry<SparseCollectiveEntry>::instance().at(name);
  const ExchangeSizes sizes{.numel = kNumel,
                            .k = kSelected,
                            .ranks = world,
                            .selected = kSelected,
                            .largest = kSelected,
                            .global = entries[0],
                            .coding = codec::ListEstimate(coding)};
  return std::accumulate(sent.begin(), sent.end(), 0.0) / world /
         entry.predict(Settings(entry.settings), sizes).bytes_sent;
}

constexpr std::size_t kEntriesOfRegion = 300;

/// Bytes that a rank's collective and its result hold after two exchanges, mean over ranks. Regions hold equal shares.
double held_bytes(int world, const Subject& subject) {
  const auto ranks = static_cast<std::size_t>(world);
  const dragonn::testing::HeldBytes counted;
  double held = 0;
  run_local(world, {.timeout_s = 60}, [&](Communicator& communicator) {
    const std::size_t me = unsigned_rank(communicator);
    std::vector<float> acc(ranks * kEntriesOfRegion * 20, 1.0f + static_cast<float>(me));
    Indices indices;
    for (std::size_t region = 0; region < ranks; ++region) {
      if (subject.traits.partitioned && region != me) continue;
      for (std::size_t i = 0; i < kEntriesOfRegion; ++i) {
        indices.push_back(static_cast<std::uint32_t>(region * kEntriesOfRegion * 20 + i * ranks + me));
      }
    }
    const SparseVector selected = entries_at(acc, indices);
    const auto run = [&](GroupReduce& group, SparseCollective& collective, SparseReduction& out) {
      for (std::uint64_t step = 0; step < 2; ++step) {
        const ReduceContext context{.step = step, .k = ranks * kEntriesOfRegion, .selection = subject.traits};
        group.run({&collective, &context, View<const float>(std::span(acc)), &selected, &out});
      }
      align(communicator);
    };
    // What the communicator grows is no bucket's: both slots of every mailbox, which the messages of one run may pass
    // in pairs, so that the large ones meet the same slot again.
    const auto first = make_collective(subject.collective, acc.size(), subject.settings);
    SparseReduction first_out, out;
    GroupReduce first_group(communicator);
    for (int turn = 0; turn < 2; ++turn) {
      run(first_group, *first, first_out);
      align(communicator);
    }
    const double before = dragonn::testing::HeldBytes::now();
    align(communicator);
    const auto collective = make_collective(subject.collective, acc.size(), subject.settings);
    GroupReduce group(communicator);
    run(group, *collective, out);
    if (me == 0) held = (dragonn::testing::HeldBytes::now() - before) / world;
    align(communicator);
  });
  return held;
}

std::size_t stated_memory(int world, const Subject& subject) {
  const auto& entry = Registry<SparseCollectiveEntry>::instance().at(subject.collective);
  Settings settings(entry.settings);
  for (const auto& [name, value] : subject.settings) settings.set(name, value);
  const auto k = static_cast<std::size_t>(world) * kEntriesOfRegion;
  return entry.memory(settings, expected_sizes(entry, subject.traits, 20 * k, k, world), {});
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("coded lists take about the predicted bytes, where indices are at random places") {
    for (const char* indices : {"raw32", "rice", "blocked", "smallest"}) {
      for (const char* values : {"float32", "float16", "int8"}) {
        const codec::CodecChoice coding = coding_of(indices, values);
        for (const char* name : {"allgather", "dsa", "gtopk", "index_union", "cltk", "dense"}) {
          const auto& entry = Registry<SparseCollectiveEntry>::instance().at(name);
          if (!entry.sends(Registry<codec::ValueCodecEntry>::instance().at(values))) continue;
          if (values == std::string("float16") && entry.codes == CodedValues::kLists) continue;  // as int8
          if (!entry.sends_indices(Settings(entry.settings), {}) && indices != std::string("raw32")) continue;
          INFO(coding.name(), ", ", name);
          CHECK(sent_over_predicted(4, name, coding) == doctest::Approx(1).epsilon(0.02));
        }
      }
    }
  }

  TEST_CASE("exchanges of a fixed size take the predicted bytes, and the predicted time within 1 %") {
    const SelectionTraits bounded{.at_most_k = true};
    const std::vector<Subject> at_powers_of_two{{"dense", {{"algorithm", "ring"}}},
                                                {"dense", {{"algorithm", "rabenseifner"}}},
                                                {"dense", {{"algorithm", "native"}}},
                                                {"allgather", {}, bounded},
                                                {"allgather", {{"layout", "padded"}}},
                                                {"allgather", {{"layout", "unpadded"}}},
                                                {"allgather", {{"layout", "unpadded"}, {"route", "direct"}}},
                                                {"index_union", {}, bounded},
                                                {"gtopk", {}, bounded},
                                                {"gtopk", {{"put_back", "exact"}}, bounded},
                                                {"gtopk", {{"put_back", "naive"}}, bounded},
                                                {"gtopk"},
                                                {"cltk"},
                                                {"exdyna", {}, {.partitioned = true}}};
    for (const int world : {1, 2, 4, 8, 32}) {
      for (const Subject& subject : with_all_others(at_powers_of_two)) {
        if (subject.collective == "oktopk") continue;  // what it sends depends on the values
        if (world > 1 || subject.collective != "cltk") check_prediction(world, subject);
      }
    }
    for (const int world : {3, 5, 6, 7, 12}) {
      check_prediction(world, {"dense", {{"algorithm", "ring"}}});
      check_prediction(world, {"allgather", {}, bounded});
      check_prediction(world, {"index_union", {}, bounded});
      check_prediction(world, {"exdyna", {}, {.partitioned = true}});
    }
  }

  TEST_CASE("an allgather is predicted in ceil(log2 P) messages unless its blocks are large") {
    const std::size_t small = Communicator::kSmallBlock;
    for (const std::size_t block : {small, small + 1}) {
      for (const int world : {2, 3, 5, 8, 12}) {
        std::vector<double> seconds(static_cast<std::size_t>(world));
        run_local(world, {.timeout_s = 60, .network = kNetwork, .compute = Compute::kZero}, [&](Communicator& c) {
          const std::vector<std::byte> mine(block);
          std::vector<std::byte> all(block * unsigned_size(c));
          c.allgather(std::span<const std::byte>(mine), std::span<std::byte>(all));
          seconds[unsigned_rank(c)] = c.now();
        });
        const double predicted = allgather_chain(static_cast<double>(block), world).seconds(kNetwork);
        CHECK(std::ranges::max(seconds) == doctest::Approx(predicted).epsilon(0.001).scale(1e-9));
      }
    }
  }

  TEST_CASE("small blocks that are sent together are predicted as the one block that they are") {
    for (const int world : {2, 3, 5, 8, 12}) {
      const double one = 0.7 * static_cast<double>(Communicator::kSmallBlock);
      const Chain ahead{.messages = 2, .bytes = 100};
      Prediction fused{.payload = ahead + allgather_chain(one, world)};
      fused.fuse_with({.payload = ahead + allgather_chain(one, world)});
      CHECK(fused.payload.messages == 2 + allgather_chain(2 * one, world).messages);
      CHECK(fused.payload.bytes == doctest::Approx(200 + allgather_chain(2 * one, world).bytes));
      Prediction small{.payload = allgather_chain(one / 4, world)};
      small.fuse_with({.payload = allgather_chain(one / 4, world)});
      CHECK(small.payload.messages == allgather_chain(one / 2, world).messages);
    }
  }

  TEST_CASE("an exchange holds what its collective states, up to the room that buffers grow with") {
    const SelectionTraits bounded{.at_most_k = true};
    const std::vector<Subject> subjects{{"dense"},
                                        {"allgather", {}, bounded},
                                        {"allgather", {{"decode", "dense"}}, bounded},
                                        {"allgather", {}, {.shared_indices = true}},
                                        {"allgather", {{"layout", "unpadded"}}},
                                        {"allgather", {{"layout", "unpadded"}, {"route", "direct"}}},
                                        {"dsa"},
                                        {"dsa", {{"switch", 0.0}}},
                                        {"index_union", {}, bounded},
                                        {"index_union", {}, {.shared_indices = true}},
                                        {"gtopk", {}, bounded},
                                        {"gtopk", {{"put_back", "exact"}}},
                                        {"gtopk", {{"put_back", "naive"}}},
                                        {"gtopk", {{"put_back", "paper"}}},
                                        {"oktopk"},
                                        {"cltk"},
                                        {"exdyna", {}, {.partitioned = true}}};
    for (const int world : {2, 4, 7}) {
      for (const Subject& subject : with_all_others(subjects)) {
        CAPTURE(world);
        CAPTURE(subject.collective);
        const double stated = static_cast<double>(stated_memory(world, subject)), held = held_bytes(world, subject);
        // A decoder's window is no Buffer, and only a tree's inner ranks hold all that its entry states. Room is made
        // for twice as much, and for slices as if all entries were in one region; no page of that is ever touched.
        const bool has_slices = subject.collective == "dsa" || subject.collective == "oktopk";
        CHECK(held + sizeof(BatchDecoder) >= 0.6 * stated);
        CHECK(held <= (has_slices ? 4 : 2.5) * stated);
      }
    }
  }

  TEST_CASE("a size-only exchange moves the same bytes in the same time as one in full") {
    const SelectionTraits bounded{.at_most_k = true};
    const std::vector<Subject> subjects{{"dense", {{"algorithm", "ring"}}},
                                        {"dense", {{"algorithm", "rabenseifner"}}},
                                        {"dense", {{"algorithm", "native"}}},
                                        {"allgather", {}, bounded},
                                        {"allgather", {{"layout", "unpadded"}}},
                                        {"allgather", {{"layout", "unpadded"}, {"route", "direct"}}},
                                        {"dsa"},
                                        {"dsa", {{"switch", 0.0}}},
                                        {"gtopk", {}, bounded},
                                        {"gtopk", {{"put_back", "exact"}}},
                                        {"gtopk", {{"put_back", "naive"}}},
                                        {"gtopk", {{"put_back", "paper"}}},
                                        {"oktopk"},
                                        {"cltk"},
                                        {"exdyna", {}, {.partitioned = true}}};
    for (const int world : {1, 2, 3, 4, 8}) {
      for (const Subject& subject : with_all_others(subjects)) {
        for (const std::uint64_t steps : {1, 2}) {
          CAPTURE(world);
          CAPTURE(subject.collective);
          CAPTURE(steps);
          const Observed full = observe(world, subject, /*payload_only=*/false, steps);
          const Observed size_only = observe(world, subject, /*payload_only=*/true, steps);
          CHECK(full.payload == size_only.payload);
          CHECK(full.header == size_only.header);
          CHECK(full.seconds == size_only.seconds);
          if (subject.collective == "oktopk") CHECK(full.sizes.global == size_only.sizes.global);
        }
      }
    }
  }

  TEST_CASE("a size-only message has a size and no content, and only the local backend has them") {
    run_local(2, {.timeout_s = 60}, [](Communicator& communicator) {
      std::vector<float> values(5, 1.0f + static_cast<float>(communicator.rank()));
      {
        const ScopedSizeOnly scope(communicator, true);
        communicator.allreduce_sum(View<float>(std::span(values)));
      }
      expect(values == std::vector<float>(5, 1.0f + static_cast<float>(communicator.rank())), "nothing is added up");
      expect(communicator.traffic()[Phase::kControl].bytes_sent == sizeof(float) * values.size(), "bytes count");
      communicator.allreduce_sum(View<float>(std::span(values)));
      expect(values == std::vector<float>(5, 3.0f), "afterwards messages are full again");
    });
  }
}

}  // namespace dragonn::comm::test
