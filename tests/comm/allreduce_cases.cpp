// SPDX-License-Identifier: MIT
#include <array>
#include <bit>

#include "comm/blocks.h"
#include "core/hash.h"
#include "core/rng.h"
#include "tests/comm/cases.h"
#include "tests/comm/sparse_support.h"

namespace dragonn::comm::test {
namespace {

/// Small integers, different on every rank: sums are exact in any order.
float element(std::size_t rank, std::size_t index) {
  return static_cast<float>(rank + 1) * (static_cast<float>(index % 7) - 3.0f);
}

std::vector<float> elements(std::size_t rank, std::size_t count) {
  std::vector<float> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = element(rank, i);
  return result;
}

/// Sizes around the number of ranks, so that chunks are empty, of one element, and uneven.
std::vector<std::size_t> interesting_sizes(std::size_t ranks) {
  return {0, 1, 2, ranks - 1, ranks, ranks + 1, 37, 1000};
}

void expect_sums(Communicator& communicator, DenseAlgorithm algorithm) {
  const std::size_t ranks = unsigned_size(communicator);
  for (const std::size_t count : interesting_sizes(ranks)) {
    std::vector<float> values = elements(unsigned_rank(communicator), count);
    communicator.allreduce_sum(View<float>(std::span<float>(values)), algorithm);
    for (std::size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank) sum += element(rank, i);
      expect(values[i] == sum, "the sum over ranks");
    }
  }
}

void ring_sums(Communicator& communicator) {
  expect_sums(communicator, DenseAlgorithm::kRing);
}

void rabenseifner_sums(Communicator& communicator) {
  expect_sums(communicator, DenseAlgorithm::kRabenseifner);
}

void native_sums(Communicator& communicator) {
  expect_sums(communicator, DenseAlgorithm::kNative);
}

Traffic traffic_of(Communicator& communicator, std::size_t count, DenseAlgorithm algorithm) {
  std::vector<float> values = elements(unsigned_rank(communicator), count);
  const TrafficMeter meter(communicator, Phase::kControl);
  communicator.allreduce_sum(View<float>(std::span<float>(values)), algorithm);
  return meter.moved();
}

void ring_counts(Communicator& communicator) {
  const std::size_t ranks = unsigned_size(communicator);
  const std::size_t rank = unsigned_rank(communicator);
  const std::uint64_t messages = 2 * (ranks - 1);
  for (const std::size_t count : interesting_sizes(ranks)) {
    const auto chunk = [&](std::size_t index) { return block(count, ranks, index % ranks).size(); };
    const std::uint64_t sent = ranks == 1 ? 0 : 4 * (2 * count - chunk(rank + 1) - chunk(rank + 2));
    const std::uint64_t received = ranks == 1 ? 0 : 4 * (2 * count - chunk(rank) - chunk(rank + 1));
    const Traffic expected{sent, received, messages, messages};
    expect(traffic_of(communicator, count, DenseAlgorithm::kRing) == expected, "ring: 2n words less two chunks");
  }
  const std::size_t count = 100 * ranks;
  expect(traffic_of(communicator, count, DenseAlgorithm::kRing).bytes_sent == 4 * (2 * count * (ranks - 1) / ranks),
         "ring: 2n(P-1)/P words where P divides n");
}

void rabenseifner_counts(Communicator& communicator) {
  const std::size_t ranks = unsigned_size(communicator);
  const std::size_t rank = unsigned_rank(communicator);
  const std::size_t participants = std::bit_floor(ranks);
  const std::size_t folded = ranks - participants;
  const std::size_t count = 24 * participants;
  const std::uint64_t inner_bytes = 4 * (2 * count * (participants - 1) / participants);
  const auto inner_messages = 2 * static_cast<std::uint64_t>(std::countr_zero(participants));
  const bool is_folded = rank < 2 * folded;
  const std::uint64_t fold_bytes = is_folded ? 4 * count : 0;
  const std::uint64_t fold_messages = is_folded ? 1 : 0;
  const bool takes_part = !is_folded || rank % 2 == 0;
  const std::uint64_t bytes = fold_bytes + (takes_part ? inner_bytes : 0);
  const std::uint64_t messages = fold_messages + (takes_part ? inner_messages : 0);
  const Traffic expected{bytes, bytes, messages, messages};
  expect(traffic_of(communicator, count, DenseAlgorithm::kRabenseifner) == expected,
         "rabenseifner: 2n(P'-1)/P' words, and n more for folded ranks");
}

std::vector<float> random_floats(const Communicator& communicator, std::size_t count) {
  Rng rng(1, "test", {unsigned_rank(communicator)});
  std::vector<float> result(count);
  for (float& value : result) value = rng.normal();
  return result;
}

void same_bits(Communicator& communicator) {
  for (const auto algorithm : {DenseAlgorithm::kRing, DenseAlgorithm::kRabenseifner}) {
    std::vector<float> values = random_floats(communicator, 1003);
    communicator.allreduce_sum(View<float>(std::span<float>(values)), algorithm);
    const std::uint64_t mine = hash_bytes(std::as_bytes(std::span(values)));
    std::vector<std::uint64_t> all(unsigned_size(communicator));
    communicator.allgather_values(std::span<const std::uint64_t>(&mine, 1), std::span(all));
    expect(std::ranges::all_of(all, [&](std::uint64_t hash) { return hash == mine; }), "all ranks hold the same bits");
  }
}

constexpr std::array kCases{
    Case{"ring allreduce sums exactly", ring_sums},
    Case{"rabenseifner allreduce sums exactly", rabenseifner_sums},
    Case{"native allreduce sums exactly", native_sums},
    Case{"ring allreduce moves what its formula says", ring_counts},
    Case{"rabenseifner allreduce moves what its formula says", rabenseifner_counts},
    Case{"allreduce gives all ranks the same bits", same_bits},
};

}  // namespace

std::span<const Case> allreduce_cases() {
  return kCases;
}

std::uint64_t digest(Communicator& communicator) {
  std::vector<float> results;
  for (const auto algorithm : {DenseAlgorithm::kRing, DenseAlgorithm::kRabenseifner}) {
    std::vector<float> values = random_floats(communicator, 1003);
    communicator.allreduce_sum(View<float>(std::span<float>(values)), algorithm);
    results.insert(results.end(), values.begin(), values.end());
  }
  const std::vector<float> mine = random_floats(communicator, 1003);
  std::vector<double> sums(mine.begin(), mine.end());
  communicator.allreduce_sum(std::span<double>(sums));
  for (const double sum : sums) results.push_back(static_cast<float>(sum));

  SparseVector selected;
  selected.resize_discard(200);
  for (std::uint32_t i = 0; i < 200; ++i) {
    selected.indices.host()[i] = i * (1 + static_cast<std::uint32_t>(communicator.rank()) % 5);
    selected.values.host()[i] = mine[i];
  }
  for (const std::string& name : Registry<SparseCollectiveEntry>::instance().names()) {
    const auto collective = make_collective(name, 1003);
    SparseReduction out;
    for (std::uint64_t step = 0; step < 3; ++step) {
      reduce(communicator, *collective, {.step = step, .k = 100, .density = 0.1}, mine, selected, out);
      const std::vector<float> sum = sum_of(out, mine.size());
      results.insert(results.end(), sum.begin(), sum.end());
    }
  }
  return hash_bytes(std::as_bytes(std::span(results)));
}

}  // namespace dragonn::comm::test
