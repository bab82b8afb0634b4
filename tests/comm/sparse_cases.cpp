// SPDX-License-Identifier: MIT
#include <array>
#include <numeric>

#include "core/sparse_vector.h"
#include "tests/comm/cases.h"
#include "tests/comm/sparse_support.h"

namespace dragonn::comm::test {
namespace {

constexpr std::size_t kNumel = 61;
constexpr std::size_t kSlots = 9;

/// Integer acc of a rank: sums are exact.
std::vector<float> accumulated(std::size_t rank) {
  std::vector<float> acc(kNumel);
  for (std::size_t i = 0; i < kNumel; ++i) acc[i] = static_cast<float>((i * (rank + 3)) % 11) - 5.0f;
  return acc;
}

/// A rank's choice, of another size on every rank; rank 1 chooses nothing.
std::vector<std::uint32_t> chosen(std::size_t rank) {
  std::vector<std::uint32_t> indices;
  const std::size_t count = rank == 1 ? 0 : 1 + (rank * 5) % kSlots;
  for (std::size_t i = 0; i < count; ++i) indices.push_back(static_cast<std::uint32_t>(i * (2 + rank % 5) + rank % 3));
  return indices;
}

/// The sum of all ranks' choices.
std::map<std::uint32_t, float> expected_sum(std::size_t ranks) {
  std::map<std::uint32_t, float> sum;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::vector<float> acc = accumulated(rank);
    for (const std::uint32_t index : chosen(rank)) sum[index] += acc[index];
  }
  return sum;
}

Outcome run(Communicator& communicator, const Overrides& settings, const ReduceContext& context,
            std::span<const float> acc, const SparseVector& selected) {
  return exchange(communicator, *make_collective("allgather", acc.size(), settings), context, acc, selected);
}

void every_layout_sums(Communicator& communicator) {
  const std::size_t ranks = unsigned_size(communicator);
  const std::vector<float> acc = accumulated(unsigned_rank(communicator));
  const SparseVector selected = entries_at(acc, chosen(unsigned_rank(communicator)));
  const std::map<std::uint32_t, float> sum = expected_sum(ranks);
  for (const char* layout : {"auto", "fixed", "padded", "unpadded"}) {
    for (const char* decode : {"sparse", "dense"}) {
      const Outcome outcome =
          run(communicator, {{"layout", layout}, {"decode", decode}}, {.k = kSlots, .density = 0.15}, acc, selected);
      const SparseReduction& out = outcome.reduction;
      expect(out.is_dense == (std::string(decode) == "dense") && !out.contributed_all, "the form");
      if (out.is_dense) {
        for (std::uint32_t i = 0; i < kNumel; ++i) {
          expect(out.dense_sum.host()[i] == (sum.contains(i) ? sum.at(i) : 0.0f), "the dense sum");
        }
      } else {
        expect(entries_of(out.sum) == Entries(sum.begin(), sum.end()), "the sum, ascending, each index once");
      }
      expect(std::ranges::equal(out.contributed.host(), selected.indices.host()), "the own selection left");
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        expect(out.statistics.selected_counts[rank] == chosen(rank).size(), "counts of all ranks, without padding");
      }
      expect_conservation(communicator, acc, out);
    }
  }
}

void moves_what_the_formulas_say(Communicator& communicator) {
  const std::size_t ranks = unsigned_size(communicator);
  const std::size_t me = unsigned_rank(communicator);
  const std::vector<float> acc = accumulated(me);
  const SparseVector selected = entries_at(acc, chosen(me));
  std::size_t total = 0;
  std::size_t largest = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    total += chosen(rank).size();
    largest = std::max(largest, chosen(rank).size());
  }
  const std::uint64_t header_bytes = 4 * (ranks - 1);
  const auto moved = [&](const char* layout) {
    return run(communicator, {{"layout", layout}}, {.k = kSlots, .density = 0.15}, acc, selected);
  };
  const Outcome fixed = moved("fixed");
  expect(fixed.payload.bytes_sent == coo_bytes(kSlots) * (ranks - 1), "fixed: 2k(P-1) words");
  expect(fixed.payload.bytes_received == fixed.payload.bytes_sent && fixed.header == Traffic{}, "fixed: no header");
  const Outcome padded = moved("padded");
  expect(padded.payload.bytes_sent == coo_bytes(largest) * (ranks - 1), "padded: 2m(P-1) words");
  expect(padded.payload.bytes_received == padded.payload.bytes_sent, "padded: both ways");
  expect(padded.header.bytes_sent == header_bytes && padded.header.bytes_received == header_bytes, "P-1 header words");
  const Outcome unpadded = moved("unpadded");
  const std::size_t next = ranks == 1 ? total : chosen((me + 1) % ranks).size();
  expect(unpadded.payload.bytes_sent == coo_bytes(total - next), "unpadded: 2(k' - k of the next rank) words sent");
  expect(unpadded.payload.bytes_received == coo_bytes(total - chosen(me).size()), "unpadded: 2(k' - k) received");
  expect(unpadded.payload.messages_sent == ranks - 1, "unpadded: P-1 messages");
  expect(unpadded.header.bytes_sent == header_bytes, "P-1 header words");
}

void auto_follows_the_sparsifier(Communicator& communicator) {
  const std::size_t ranks = unsigned_size(communicator);
  const std::size_t me = unsigned_rank(communicator);
  const std::vector<float> acc = accumulated(me);
  ReduceContext context{.k = kSlots, .density = 0.15};
  context.selection.fixed_size = true;
  const Outcome fixed = run(communicator, {}, context, acc, entries_at(acc, chosen(me)));
  expect(fixed.payload.bytes_sent == coo_bytes(kSlots) * (ranks - 1) && fixed.header == Traffic{}, "fixed size");

  context.selection = {.fixed_size = true, .shared_indices = true};
  const std::vector<std::uint32_t> indices{2, 3, 5, 7, 11, 13, 17, 19, 23};
  const Outcome shared = run(communicator, {}, context, acc, entries_at(acc, indices));
  std::vector<float> values(kSlots);
  const TrafficMeter meter(communicator, Phase::kControl);
  communicator.allreduce_sum(View<float>(std::span<float>(values)));
  expect(shared.payload == meter.moved() && shared.header == Traffic{},
         "shared indices: a dense allreduce of k values");
  for (const auto& [index, value] : entries_of(shared.reduction.sum)) {
    float sum = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) sum += accumulated(rank)[index];
    expect(value == sum, "shared indices: the sum over ranks");
  }
  expect_conservation(communicator, acc, shared.reduction);
}

void specification_vector(Communicator& communicator) {
  // Section 3.2, n = 4, k = 1; ranks from 2 on have nothing to add.
  const std::size_t me = unsigned_rank(communicator);
  const std::array<std::vector<float>, 3> inputs{std::vector<float>{3, 0, 1, 0}, std::vector<float>{1, -2, 1, 0},
                                                 std::vector<float>(4, 0.0f)};
  const std::array<Entries, 3> choices{Entries{{0, 3.0f}}, Entries{{1, -2.0f}}, Entries{}};
  const std::size_t mine = std::min<std::size_t>(me, 2);
  const Outcome outcome = run(communicator, {}, {.k = 1, .density = 0.25}, inputs[mine], sparse(choices[mine]));
  const Entries expected = communicator.size() == 1 ? Entries{{0, 3.0f}} : Entries{{0, 3.0f}, {1, -2.0f}};
  expect(entries_of(outcome.reduction.sum) == expected, "J = {0, 1}, u = [3, -2]");
}

void unequal_counts(Communicator& communicator) {
  // Two entries of rank 0 and three of every other: all are applied, and an index whose sum is zero stays.
  const std::size_t ranks = unsigned_size(communicator);
  const bool first = communicator.rank() == 0;
  const std::vector<float> acc(5, 1.0f);
  const float others = static_cast<float>(ranks - 1);
  const SparseVector selected = first ? sparse({{0, 1.0f}, {4, -others}}) : sparse({{1, 1.0f}, {2, 1.0f}, {4, 1.0f}});
  const Outcome outcome = run(communicator, {}, {.k = 3, .density = 0.6}, acc, selected);
  const Entries expected =
      ranks == 1 ? Entries{{0, 1.0f}, {4, -0.0f}} : Entries{{0, 1.0f}, {1, others}, {2, others}, {4, 0.0f}};
  expect(entries_of(outcome.reduction.sum) == expected, "every entry is applied");
}

void nothing_selected(Communicator& communicator) {
  const std::vector<float> acc(7, 0.0f);
  for (const char* layout : {"fixed", "padded", "unpadded"}) {
    for (const std::size_t k : {std::size_t{0}, std::size_t{3}}) {
      const Outcome outcome = run(communicator, {{"layout", layout}}, {.k = k, .density = 0.5}, acc, SparseVector());
      expect(outcome.reduction.sum.empty() && outcome.reduction.contributed.size() == 0, "an empty sum");
    }
  }
}

void dense_sums(Communicator& communicator) {
  const std::size_t ranks = unsigned_size(communicator);
  const std::vector<float> acc = accumulated(unsigned_rank(communicator));
  for (const char* algorithm : {"ring", "rabenseifner", "native"}) {
    SparseReduction out;
    const TrafficMeter header(communicator, Phase::kHeader);
    const auto collective = make_collective("dense", kNumel, {{"algorithm", algorithm}});
    reduce(communicator, *collective, {.k = kNumel}, acc, SparseVector(), out);
    expect(out.is_dense && out.contributed_all && out.statistics.selected_counts.back() == kNumel, "the form");
    for (std::size_t i = 0; i < kNumel; ++i) {
      float sum = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank) sum += accumulated(rank)[i];
      expect(out.dense_sum.host()[i] == sum, "the sum of acc");
    }
    expect(header.moved() == Traffic{}, "no header");
  }
}

constexpr std::array kCases{
    Case{"allgather sums selections exactly in every layout and conserves mass", every_layout_sums},
    Case{"allgather moves what the formulas say", moves_what_the_formulas_say},
    Case{"allgather sends less where the sparsifier's size or indices are known", auto_follows_the_sparsifier},
    Case{"allgather gives the sum of the specification's example", specification_vector},
    Case{"allgather takes unequal counts", unequal_counts},
    Case{"allgather takes empty selections", nothing_selected},
    Case{"the dense collective sums all of acc", dense_sums},
};

}  // namespace

std::span<const Case> sparse_cases() {
  return kCases;
}

}  // namespace dragonn::comm::test
