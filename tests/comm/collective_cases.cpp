// SPDX-License-Identifier: MIT
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "comm/machine.h"
#include "tests/comm/cases.h"
#include "tests/comm/support.h"

namespace dragonn::comm::test {
namespace {

std::byte byte_of(std::size_t rank, std::size_t index) {
  return static_cast<std::byte>(31 * rank + index);
}

std::vector<std::byte> block_of(std::size_t rank, std::size_t size) {
  std::vector<std::byte> result(size);
  for (std::size_t i = 0; i < size; ++i) result[i] = byte_of(rank, i);
  return result;
}

/// Returns ceil(log2 P).
std::uint64_t rounds(const Communicator& communicator) {
  return static_cast<std::uint64_t>(std::bit_width(unsigned_size(communicator) - 1));
}

void gathers(Communicator& communicator) {
  const std::size_t ranks = unsigned_size(communicator);
  constexpr std::size_t kSmall = Communicator::kSmallBlock;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{13}, kSmall, kSmall + 1}) {
    const std::vector<std::byte> mine = block_of(unsigned_rank(communicator), size);
    std::vector<std::byte> all(ranks * size);
    const TrafficMeter meter(communicator, Phase::kControl);
    communicator.allgather(std::span<const std::byte>(mine), std::span<std::byte>(all));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < size; ++i) expect(all[rank * size + i] == byte_of(rank, i), "rank r's block");
    }
    const std::uint64_t bytes = size * (ranks - 1);
    const std::uint64_t messages = std::has_single_bit(ranks) || size <= kSmall ? rounds(communicator) : ranks - 1;
    expect(meter.moved() == Traffic{bytes, bytes, messages, messages},
           "P-1 blocks each way, in ceil(log2 P) messages at powers of two and where blocks are small, else P-1");
  }
}

/// Returns what a rank moves in a gather of `total` bytes, of which it has `mine`, and the next rank `next`.
Traffic gathered(GatherRoute route, std::uint64_t ranks, std::uint64_t total, std::uint64_t mine, std::uint64_t next) {
  const std::uint64_t sent = route == GatherRoute::kDirect ? (ranks - 1) * mine : ranks == 1 ? 0 : total - next;
  return {sent, total - mine, ranks - 1, ranks - 1};
}

void gathers_variable(Communicator& communicator, GatherRoute route) {
  const std::size_t ranks = unsigned_size(communicator);
  const std::size_t me = unsigned_rank(communicator);
  std::vector<std::size_t> sizes(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) sizes[rank] = 5 * (rank % 3);  // 0, 5, 10, 0, ...
  const std::size_t total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  const std::vector<std::byte> mine = block_of(me, sizes[me]);
  std::vector<std::byte> all(total);
  const TrafficMeter meter(communicator, Phase::kControl);
  communicator.allgather_variable(std::span<const std::byte>(mine), sizes, std::span<std::byte>(all), route);
  std::size_t offset = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < sizes[rank]; ++i) expect(all[offset++] == byte_of(rank, i), "rank r's block");
  }
  expect(meter.moved() == gathered(route, ranks, total, sizes[me], sizes[(me + 1) % ranks]),
         "sent on a ring: all blocks but the next rank's, directly: the own to all; received: all but the own");
}

/// Messages of 0, 5 and 10 bytes in places with some bytes more.
void gathers_messages(Communicator& communicator, GatherRoute route) {
  const std::size_t ranks = unsigned_size(communicator), me = unsigned_rank(communicator);
  const auto size_of = [](std::size_t rank) { return 5 * (rank % 3); };
  std::vector<std::size_t> capacities(ranks), offsets(ranks), found(ranks, 1);
  for (std::size_t rank = 0; rank < ranks; ++rank) capacities[rank] = size_of(rank) + rank;
  std::exclusive_scan(capacities.begin(), capacities.end(), offsets.begin(), std::size_t{0});
  std::vector<std::byte> all(offsets.back() + capacities.back());
  const std::vector<std::byte> mine = block_of(me, size_of(me));
  std::ranges::copy(mine, all.begin() + static_cast<std::ptrdiff_t>(offsets[me]));
  const TrafficMeter meter(communicator, Phase::kControl);
  std::size_t calls = 0;
  const auto read = [&](int rank, std::size_t bytes) {
    const auto from = static_cast<std::size_t>(rank);
    expect(calls++ > 0 || from == me, "the own message is the first");
    found[from] = bytes;
    for (std::size_t i = 0; i < bytes; ++i) expect(all[offsets[from] + i] == byte_of(from, i), "rank r's message");
  };
  communicator.allgather_messages(std::span<const std::byte>(all).subspan(offsets[me], mine.size()), capacities,
                                  std::span<std::byte>(all), read, route);
  expect(calls == ranks, "one call for each rank");
  std::uint64_t total = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    expect(found[rank] == size_of(rank), "the size of rank r's message");
    total += size_of(rank);
  }
  expect(meter.moved() == gathered(route, ranks, total, size_of(me), size_of((me + 1) % ranks)),
         "sent on a ring: all messages but the next rank's, directly: the own to all; received: all but the own");
}

void broadcasts(Communicator& communicator) {
  for (int root = 0; root < communicator.size(); ++root) {
    int value = communicator.rank() == root ? 1000 + root : -1;
    const TrafficMeter meter(communicator, Phase::kControl);
    communicator.broadcast_value(root, value);
    expect(value == 1000 + root, "the root's value");
    const std::uint64_t received = communicator.rank() == root ? 0 : 1;
    expect(meter.moved().messages_received == received, "every rank but the root receives once");
  }
}

void broadcasts_text(Communicator& communicator) {
  const int root = communicator.size() - 1;
  for (const std::string& sent : {std::string(), std::string("a"), std::string(5000, 'x')}) {
    std::string text = communicator.rank() == root ? sent : "something else";
    communicator.broadcast_text(root, text);
    expect(text == sent, "the root's text");
  }
}

/// A gather in place, which the rotation of the blocks must not disturb.
void gathers_in_place(Communicator& communicator) {
  const std::size_t ranks = unsigned_size(communicator);
  std::vector<std::uint64_t> all(3 * ranks);
  const std::span<std::uint64_t> mine = std::span(all).subspan(3 * unsigned_rank(communicator), 3);
  std::iota(mine.begin(), mine.end(), 3 * unsigned_rank(communicator));
  communicator.allgather_values(std::span<const std::uint64_t>(mine), std::span<std::uint64_t>(all));
  for (std::size_t i = 0; i < all.size(); ++i) expect(all[i] == i, "rank r's block");
}

/// Magnitudes so far apart that another order of the ranks gives another sum.
double term(int rank, std::size_t index) {
  return rank % 2 == 0 ? 1e16 / (rank + 1) : 1.0 + rank + static_cast<double>(index);
}

void reduces_in_rank_order(Communicator& communicator) {
  const auto others = static_cast<std::uint64_t>(communicator.size() - 1);
  // The last two take more than one piece, the last of which is not full.
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{2}, std::size_t{512}, std::size_t{513}, std::size_t{1100}}) {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = term(communicator.rank(), i);
    const TrafficMeter meter(communicator, Phase::kControl);
    communicator.allreduce_sum(std::span<double>(values));
    for (std::size_t i = 0; i < count; ++i) {
      double expected = term(0, i);
      for (int rank = 1; rank < communicator.size(); ++rank) expected += term(rank, i);
      expect(values[i] == expected, "sums in rank order");
    }
    const std::uint64_t bytes = sizeof(double) * count * others;
    const std::uint64_t messages = (count + 511) / 512 * rounds(communicator);
    expect(meter.moved() == Traffic{bytes, bytes, messages, messages}, "ceil(log2 P) messages for each piece of 4 KiB");
  }
}

void reduces_counters(Communicator& communicator) {
  const auto ranks = static_cast<std::uint64_t>(communicator.size());
  const auto me = static_cast<std::uint64_t>(communicator.rank());
  std::array<std::uint64_t, 2> sum{me, (std::uint64_t{1} << 60) / ranks};
  communicator.allreduce_sum(std::span<std::uint64_t>(sum));
  expect(sum[0] == ranks * (ranks - 1) / 2 && sum[1] == (std::uint64_t{1} << 60) / ranks * ranks, "sums of counters");
}

/// Every rank gets the largest value, whichever rank has it: a missing round would leave some rank without.
void finds_maxima(Communicator& communicator) {
  for (int holder = 0; holder < communicator.size(); ++holder) {
    const bool mine = communicator.rank() == holder;
    std::array<std::uint64_t, 2> largest{mine ? ~std::uint64_t{0} : 7, mine ? 0u : 9u};
    const TrafficMeter meter(communicator, Phase::kControl);
    communicator.allreduce_max(std::span<std::uint64_t>(largest));
    expect(largest[0] == ~std::uint64_t{0}, "the largest counter of any rank");
    expect(largest[1] == (communicator.size() == 1 ? 0 : 9), "each counter for itself");
    const std::uint64_t messages = rounds(communicator), bytes = messages * sizeof(largest);
    expect(meter.moved() == Traffic{bytes, bytes, messages, messages}, "ceil(log2 P) messages of all counters");
    double low = mine ? -1.0 : -2.0 - communicator.rank();
    communicator.allreduce_max(std::span<double>(&low, 1));
    expect(low == -1.0, "the largest double, also of negative ones");
  }
}

/// A maximum with a NaN among its values depends on the order of comparisons: the ranks must not disagree on it.
void agrees_on_maxima_with_nan(Communicator& communicator) {
  for (int holder = 0; holder < communicator.size(); ++holder) {
    double value = communicator.rank() == holder ? std::nan("") : 1.0 + communicator.rank();
    communicator.allreduce_max(std::span<double>(&value, 1));
    std::vector<double> all(unsigned_size(communicator));
    communicator.allgather_values(std::span<const double>(&value, 1), std::span<double>(all));
    for (const double other : all) {
      expect(std::bit_cast<std::uint64_t>(other) == std::bit_cast<std::uint64_t>(value), "the same bits everywhere");
    }
  }
}

void barriers(Communicator& communicator) {
  const TrafficMeter meter(communicator, Phase::kControl);
  communicator.barrier();
  const std::uint64_t messages = rounds(communicator);
  expect(meter.moved() == Traffic{0, 0, messages, messages}, "ceil(log2 P) empty messages each way");
}

void finds_its_place(Communicator& communicator) {
  // The ranks of a test are on one machine.
  const PlaceOnMachine place = place_on_machine(communicator);
  expect(place.rank == communicator.rank() && place.ranks == communicator.size(), "all ranks, in their order");
}

constexpr std::array kCases{
    Case{"allgather puts blocks in rank order and moves P-1 of them", gathers},
    Case{"allgather_variable takes blocks of any size and moves what its formula says",
         [](Communicator& communicator) { gathers_variable(communicator, GatherRoute::kRing); }},
    Case{"allgather_variable does so directly, too",
         [](Communicator& communicator) { gathers_variable(communicator, GatherRoute::kDirect); }},
    Case{"allgather_messages takes messages whose sizes nobody was told",
         [](Communicator& communicator) { gathers_messages(communicator, GatherRoute::kRing); }},
    Case{"allgather_messages does so directly, too",
         [](Communicator& communicator) { gathers_messages(communicator, GatherRoute::kDirect); }},
    Case{"broadcast reaches all ranks from any root", broadcasts},
    Case{"broadcast_text takes any length", broadcasts_text},
    Case{"allgather takes a block that is in its place", gathers_in_place},
    Case{"small sums run in rank order, in ceil(log2 P) messages", reduces_in_rank_order},
    Case{"counters are summed exactly", reduces_counters},
    Case{"maxima reach all ranks from any rank, in ceil(log2 P) messages", finds_maxima},
    Case{"all ranks get the same maximum where one has a NaN", agrees_on_maxima_with_nan},
    Case{"ranks know their place among those of their machine", finds_its_place},
    Case{"a barrier takes ceil(log2 P) rounds", barriers},
};

}  // namespace

std::span<const Case> collective_cases() {
  return kCases;
}

}  // namespace dragonn::comm::test
