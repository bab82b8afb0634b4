// SPDX-License-Identifier: MIT
#include "data/sampler.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/data/dataset_fixture.h"

namespace dragonn::data {
namespace {

/// Returns how often each sample comes up in one epoch, over all ranks.
std::map<std::uint32_t, int> epoch_counts(std::size_t samples, std::size_t batch, int world, Remainder remainder,
                                          std::uint64_t epoch) {
  std::map<std::uint32_t, int> counts;
  for (int rank = 0; rank < world; ++rank) {
    ShardedSampler sampler(samples, {batch, 7, rank, world, remainder});
    for (std::size_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      const auto indices = sampler.batch(epoch, step);
      CHECK(indices.size() == batch);
      for (const std::uint32_t index : indices) ++counts[index];
    }
  }
  return counts;
}

int max_repeated(const std::map<std::uint32_t, int>& counts) {
  return std::ranges::max_element(counts, {}, [](const auto& item) { return item.second; })->second;
}

TEST_SUITE("data") {
  TEST_CASE("shards are disjoint and drop less than a step's samples") {
    for (const int world : {1, 2, 3, 4, 5, 8}) {
      const std::size_t samples = 103, batch = 3, per_step = batch * static_cast<std::size_t>(world);
      const auto counts = epoch_counts(samples, batch, world, Remainder::kDrop, 2);
      CHECK(counts.size() == samples / per_step * per_step);
      CHECK(max_repeated(counts) == 1);
      CHECK(counts.rbegin()->first < samples);
    }
  }

  TEST_CASE("padding covers every sample and repeats less than a step's samples") {
    for (const int world : {1, 2, 3, 4, 5, 8}) {
      const std::size_t samples = 103, batch = 3, per_step = batch * static_cast<std::size_t>(world);
      const auto counts = epoch_counts(samples, batch, world, Remainder::kPad, 2);
      CHECK(counts.size() == samples);
      std::size_t drawn = 0;
      for (const auto& [index, count] : counts) drawn += static_cast<std::size_t>(count);
      CHECK(drawn == (samples + per_step - 1) / per_step * per_step);
      CHECK(max_repeated(counts) <= 2);
    }
  }

  TEST_CASE("padding fills a step that is larger than the data") {
    const auto counts = epoch_counts(5, 4, 3, Remainder::kPad, 0);
    CHECK(counts.size() == 5);
    CHECK(max_repeated(counts) == 3);
  }

  TEST_CASE("every epoch has another order, which depends on the seed") {
    ShardedSampler sampler(1000, {10, 1, 0, 1, Remainder::kDrop}), other(1000, {10, 2, 0, 1, Remainder::kDrop});
    const auto take = [](ShardedSampler& from, std::uint64_t epoch) {
      const auto indices = from.batch(epoch, 3);
      return std::vector<std::uint32_t>(indices.begin(), indices.end());
    };
    const auto first = take(sampler, 0);
    CHECK(take(sampler, 1) != first);
    CHECK(take(other, 0) != first);
    CHECK(take(sampler, 0) == first);  // any order of the calls gives the same
  }

  TEST_CASE("a step has the same samples however the global batch is split") {
    std::set<std::uint32_t> whole, split;
    ShardedSampler one(100, {12, 1, 0, 1, Remainder::kDrop});
    for (const std::uint32_t index : one.batch(4, 2)) whole.insert(index);
    for (int rank = 0; rank < 3; ++rank) {
      ShardedSampler sampler(100, {4, 1, rank, 3, Remainder::kDrop});
      for (const std::uint32_t index : sampler.batch(4, 2)) split.insert(index);
    }
    CHECK(whole == split);
  }

  TEST_CASE("too few samples are refused with the numbers") {
    const auto error = [](std::size_t samples, const BatchRules& rules) {
      return error_of<ConfigError>([&] { ShardedSampler sampler(samples, rules); });
    };
    CHECK(error(3, {1, 1, 0, 4, Remainder::kPad}) ==
          "4 workers for 3 training samples: at most 3 workers can take part");
    CHECK(
        contains(error(100, {32, 1, 0, 4, Remainder::kDrop}), "4 workers x batch size 32 samples, but there are 100"));
    CHECK(contains(error(100, {32, 1, 0, 4, Remainder::kDrop}), "at most 25"));
    CHECK(error(100, {25, 1, 0, 4, Remainder::kDrop}) == "no error");
    CHECK(contains(error(100, {0, 1, 0, 4, Remainder::kDrop}), "batch size 0"));
  }

  TEST_CASE("evaluation shards cover every sample once in any world") {
    for (const std::size_t samples : {0, 1, 7, 100}) {
      for (const int world : {1, 2, 3, 4, 5, 8, 13}) {
        std::size_t next = 0;
        for (int rank = 0; rank < world; ++rank) {
          const EvaluationShard shard = evaluation_shard(samples, rank, world);
          CHECK(shard.begin == next);
          const std::size_t min = samples / static_cast<std::size_t>(world);
          CHECK((shard.size() == min || shard.size() == min + 1));
          next = shard.end;
        }
        CHECK(next == samples);
      }
    }
  }
}

}  // namespace
}  // namespace dragonn::data
