// SPDX-License-Identifier: MIT
#include <array>
#include <bit>
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

void gathers(Communicator& communicator) {
  const std::size_t ranks = unsigned_size(communicator);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{13}, std::size_t{4096}}) {
    const std::vector<std::byte> mine = block_of(unsigned_rank(communicator), size);
    std::vector<std::byte> all(ranks * size);
    const TrafficMeter meter(communicator, Phase::kControl);
    communicator.allgather(std::span<const std::byte>(mine), std::span<std::byte>(all));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < size; ++i) expect(all[rank * size + i] == byte_of(rank, i), "rank r's block");
    }
    const std::uint64_t bytes = size * (ranks - 1);
    const std::uint64_t messages =
        std::has_single_bit(ranks) ? static_cast<std::uint64_t>(std::countr_zero(ranks)) : ranks - 1;
    expect(meter.moved() == Traffic{bytes, bytes, messages, messages},
           "P-1 blocks each way, in log2 P messages at powers of two and P-1 elsewhere");
  }
}

void gathers_variable(Communicator& communicator) {
  const std::size_t ranks = unsigned_size(communicator);
  const std::size_t me = unsigned_rank(communicator);
  std::vector<std::size_t> sizes(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) sizes[rank] = 5 * (rank % 3);  // 0, 5, 10, 0, ...
  const std::size_t total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  const std::vector<std::byte> mine = block_of(me, sizes[me]);
  std::vector<std::byte> all(total);
  const TrafficMeter meter(communicator, Phase::kControl);
  communicator.allgather_variable(std::span<const std::byte>(mine), sizes, std::span<std::byte>(all));
  std::size_t offset = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < sizes[rank]; ++i) expect(all[offset++] == byte_of(rank, i), "rank r's block");
  }
  const std::uint64_t sent = ranks == 1 ? 0 : total - sizes[(me + 1) % ranks];
  const std::uint64_t received = total - sizes[me];
  expect(meter.moved() == Traffic{sent, received, ranks - 1, ranks - 1},
         "sent: all blocks but the next rank's; received: all but the own");
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

void reduces_in_rank_order(Communicator& communicator) {
  // Magnitudes so far apart that another order of the ranks gives another sum.
  const auto term = [](int rank) { return rank % 2 == 0 ? 1e16 / (rank + 1) : 1.0 + rank; };
  double expected = term(0);
  for (int rank = 1; rank < communicator.size(); ++rank) expected += term(rank);
  std::array<double, 2> values{term(communicator.rank()), -static_cast<double>(communicator.rank())};
  communicator.allreduce_sum(std::span<double>(values));
  const double ranks = communicator.size();
  expect(values[0] == expected && values[1] == -ranks * (ranks - 1) / 2, "sums in rank order");
}

void reduces_counters(Communicator& communicator) {
  const auto ranks = static_cast<std::uint64_t>(communicator.size());
  const auto me = static_cast<std::uint64_t>(communicator.rank());
  std::array<std::uint64_t, 2> sum{me, (std::uint64_t{1} << 60) / ranks};
  communicator.allreduce_sum(std::span<std::uint64_t>(sum));
  expect(sum[0] == ranks * (ranks - 1) / 2 && sum[1] == (std::uint64_t{1} << 60) / ranks * ranks, "sums of counters");
  std::uint64_t largest = 7 + me;
  communicator.allreduce_max(std::span<std::uint64_t>(&largest, 1));
  expect(largest == 6 + ranks, "the largest counter");
  double low = -static_cast<double>(me);
  communicator.allreduce_max(std::span<double>(&low, 1));
  expect(low == 0.0, "the largest double, also of negative ones");
}

void barriers(Communicator& communicator) {
  const TrafficMeter meter(communicator, Phase::kControl);
  communicator.barrier();
  const auto rounds = static_cast<std::uint64_t>(std::bit_width(unsigned_size(communicator) - 1));
  expect(meter.moved() == Traffic{0, 0, rounds, rounds}, "ceil(log2 P) empty messages each way");
}

void finds_its_place(Communicator& communicator) {
  // The ranks of a test are on one machine.
  const PlaceOnMachine place = place_on_machine(communicator);
  expect(place.rank == communicator.rank() && place.ranks == communicator.size(), "all ranks, in their order");
}

constexpr std::array kCases{
    Case{"allgather puts blocks in rank order and moves P-1 of them", gathers},
    Case{"allgather_variable takes blocks of any size and moves what its formula says", gathers_variable},
    Case{"broadcast reaches all ranks from any root", broadcasts},
    Case{"broadcast_text takes any length", broadcasts_text},
    Case{"small sums run in rank order", reduces_in_rank_order},
    Case{"counters are summed and compared exactly", reduces_counters},
    Case{"ranks know their place among those of their machine", finds_its_place},
    Case{"a barrier takes ceil(log2 P) rounds", barriers},
};

}  // namespace

std::span<const Case> collective_cases() {
  return kCases;
}

}  // namespace dragonn::comm::test
