// SPDX-License-Identifier: MIT
#include <functional>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "comm/sparse/batch_decoder.h"
#include "comm/sparse/exchange_cost.h"
#include "comm/sparse/sparse_collective.h"
#include "core/rng.h"
#include "tests/comm/sparse_support.h"

namespace dragonn::comm::test {

namespace {

/// Takes part in a coded merge of up to 5 entries.
void merge_entries(Communicator& communicator, std::size_t numel, const SparseVector& selected) {
  GroupReduce group(communicator, {{"rice", {}}, {"float32", {}}});
  const auto collective = make_collective("gtopk", numel);
  const std::vector<float> acc(numel);
  SparseReduction out;
  const ReduceContext context{.k = 5, .selection = {.at_most_k = true}};
  group.run({collective.get(), &context, std::span<const float>(acc), &selected, &out});
}

/// Merges one entry in a bucket of 40 with what `other` makes rank 1 send. Returns rank 0's error.
std::string error_beside(const std::function<void(Communicator&)>& other) {
  std::string error;
  run_local(2, {.timeout_s = 60}, [&](Communicator& communicator) {
    try {
      if (communicator.rank() == 1) return other(communicator);
      merge_entries(communicator, 40, sparse({{3, 2.0f}}));
    } catch (const CommError& caught) {
      if (communicator.rank() == 0) error = caught.what();
    }
  });
  return error;
}

/// Lets rank 1 send these bytes where rank 0 expects a list of up to 5 entries.
std::string error_of_message(const std::vector<std::byte>& message) {
  return error_beside(
      [&](Communicator& communicator) { communicator.send(0, kTagSlices, View<const std::byte>(std::span(message))); });
}

/// The code of a list of entries of value 1 at these indices.
std::vector<std::byte> coded(const std::vector<std::uint32_t>& indices) {
  const auto codec = codec::make_list_codec({{"rice", {}}, {"float32", {}}});
  const std::vector<float> values(indices.size(), 1.0f);
  std::vector<std::byte> code(codec->max_bytes(indices.size(), true));
  code.resize(codec->encode({std::span(indices), std::span(values)}, true, code));
  return code;
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("what is no list is refused with its rank, its place and the reason") {
    std::vector<std::byte> damaged = coded({1, 2, 30});
    damaged[4] = std::byte{31};
    const std::string error = error_of_message(damaged);
    CHECK(error.find("rank 0, in gtopk, receiving from rank 1: list: rice: b is 31, above 30") != std::string::npos);
    CHECK(error_of_message(coded({0, 1, 2, 3, 4, 5})).find("6 entries, and there are at most 5") != std::string::npos);
    const std::string larger = error_beside([](Communicator& communicator) {
      merge_entries(communicator, 80, sparse({{1, 1.0f}, {40, 1.0f}}));
    });
    CHECK(larger.find("rank 0, in gtopk, receiving from rank 1: list: index 40 is not in [0, 40)") !=
          std::string::npos);
  }

  TEST_CASE("BatchDecoder sums lists in order, skips empty slots and starts anew") {
    const SparseVector first = sparse({{3, 2.0f}, {199, 1.0f}, {kEmptySlot, 0.0f}});
    const SparseVector nothing = sparse({});
    const SparseVector second = sparse({{3, 5.0f}, {64, -1.0f}, {199, -1.0f}});
    BatchDecoder decoder(200);
    SparseVector sum;
    for (int round = 0; round < 2; ++round) {
      CHECK(decoder.add(first) == 2);
      CHECK(decoder.add(nothing) == 0);
      CHECK(decoder.add(second) == 3);
      decoder.finish(sum);
      const std::vector<std::pair<std::uint32_t, float>> expected{{3, 7.0f}, {64, -1.0f}, {199, 0.0f}};
      CHECK(entries_of(sum) == expected);
    }
    decoder.finish(sum);
    CHECK(sum.empty());
  }

  TEST_CASE("BatchDecoder equals the dense decoding, bit for bit") {
    constexpr std::size_t kNumel = 50001;  // several windows, the last one partial
    BatchDecoder decoder(kNumel);
    std::vector<float> dense(kNumel);
    Rng rng(3, "test");
    std::vector<SparseVector> lists;
    for (int list = 0; list < 7; ++list) {
      std::vector<std::pair<std::uint32_t, float>> entries;
      for (std::uint32_t i = 0; i < kNumel; ++i) {
        const bool is_gap = i > 9000 && i < 30000;  // windows without entries
        if (!is_gap && rng.below(10) == 0) entries.emplace_back(i, rng.normal());
      }
      lists.push_back(sparse(entries));
    }
    for (const SparseVector& list : lists) {
      CHECK(decoder.add(list) == add_to_dense(list, dense));
    }
    std::vector<float> batched(kNumel, 99.0f);
    decoder.finish_dense(batched);
    CHECK(batched == dense);
    for (const SparseVector& list : lists) decoder.add(list);
    SparseVector sum;
    decoder.finish(sum);
    std::vector<float> scattered(kNumel);
    for (const auto& [index, value] : entries_of(sum)) scattered[index] = value;
    CHECK(scattered == dense);
  }

  TEST_CASE("decoding refuses indices that the bucket does not have, and those that do not ascend") {
    BatchDecoder decoder(20000);
    std::vector<float> dense(20000);
    const SparseVector outside = sparse({{20000, 1.0f}});
    CHECK_THROWS_AS(decoder.add(outside), CommError);
    CHECK_THROWS_AS(add_to_dense(outside, dense), CommError);
    SparseVector sum;
    for (const SparseVector& damaged : {sparse({{19999, 1.0f}, {0, 1.0f}}), sparse({{20000, 1.0f}, {5, 1.0f}})}) {
      decoder.add(damaged);
      CHECK_THROWS_AS(decoder.finish(sum), CommError);
      decoder.add(damaged);
      CHECK_THROWS_AS(decoder.finish_dense(dense), CommError);
    }
    const SparseVector good = sparse({{7, 1.0f}});
    decoder.add(good);
    decoder.finish(sum);
    CHECK(entries_of(sum) == entries_of(good));
  }

  TEST_CASE("a selection that outgrows its fixed message is an error") {
    const std::vector<float> acc(8, 1.0f);
    CHECK_THROWS_AS(run_local(2, {},
                              [&](Communicator& c) {
                                SparseReduction out;
                                const SparseVector selected = sparse({{0, 1.0f}, {1, 1.0f}});
                                const auto collective = make_collective("allgather", 8, {{"layout", "fixed"}});
                                reduce(c, *collective, {.k = 1, .density = 0.125}, acc, selected, out);
                              }),
                    Error);
  }

  TEST_CASE("a collective that counts senders divides each entry by their number, in both forms of the sum") {
    const std::vector<Entries> selections{
        {{0, 5.0f}, {3, 3.0f}}, {{0, 4.0f}, {2, -6.0f}}, {{0, 0.0f}, {1, 8.0f}, {3, -3.0f}}};
    for (const char* decode : {"sparse", "dense"}) {
      CAPTURE(decode);
      std::vector<float> means;
      run_local(3, {}, [&](Communicator& c) {
        SparseReduction out;
        const std::vector<float> acc(5, 1.0f);
        const auto collective = make_collective("allgather", 5, {{"decode", decode}});
        const SparseVector selected = sparse(selections[static_cast<std::size_t>(c.rank())]);
        reduce(c, *collective, {.k = 2, .density = 0.4, .averages_senders = true}, acc, selected, out);
        if (!out.is_mean) throw Error("the sum is divided");
        if (c.rank() == 0) means = sum_of(out, 5);
        reduce(c, *collective, {.k = 2, .density = 0.4}, acc, selected, out);
        if (out.is_mean) throw Error("this one is not");
      });
      CHECK(means == std::vector<float>{3, 8, -6, 0, 0});
    }
  }

  TEST_CASE("check_pair refuses what does not fit and lists what does") {
    CHECK_NOTHROW(check_pair({.fixed_size = true}, "topk", "allgather"));
    CHECK_NOTHROW(check_pair({.rescaled = true}, "randomk", "allgather"));
    CHECK_NOTHROW(check_pair({.leader_only = true}, "cltk", "dense"));
    CHECK_THROWS_AS(check_pair({}, "topk", "no_such_collective"), ConfigError);
    try {
      check_pair({.leader_only = true}, "cltk", "allgather");
      FAIL("not refused");
    } catch (const ConfigError& error) {
      const std::string message = error.what();
      CHECK(message.find("sparsifier 'cltk' does not go with collective 'allgather'") == 0);
      CHECK(message.find("valid: ") != std::string::npos);
      CHECK(message.find("dense", message.find("valid: ")) != std::string::npos);
    }
  }

  TEST_CASE("a collective takes the selections that its aggregation means something for, and no others") {
    using Names = std::vector<std::string>;
    const auto takers = [](const SelectionTraits& traits) {
      Names names;
      for (const char* name : {"allgather", "cltk", "dsa", "exdyna", "gtopk", "index_union", "oktopk"}) {
        if (Registry<SparseCollectiveEntry>::instance().at(name).refuses(traits).empty()) names.push_back(name);
      }
      return names;
    };
    CHECK(takers({}) == Names{"allgather", "cltk", "dsa", "gtopk", "index_union", "oktopk"});
    CHECK(takers({.fixed_size = true, .shared_indices = true, .blind = true}) ==
          Names{"allgather", "cltk", "index_union"});
    CHECK(takers({.fixed_size = true, .blind = true}) == Names{"allgather", "cltk", "dsa", "index_union"});
    CHECK(takers({.fixed_size = true, .rescaled = true, .blind = true}) == Names{"allgather", "dsa"});
    CHECK(takers({.partitioned = true}) == Names{"allgather", "exdyna", "index_union"});
    CHECK(takers({.leader_only = true}) == Names{"cltk"});
  }

  TEST_CASE("the expected bytes are those of equal selections") {
    const auto bytes_sent = [](const std::string& name, std::size_t numel, int world, const Overrides& overrides = {}) {
      const auto& entry = Registry<SparseCollectiveEntry>::instance().at(name);
      Settings settings(entry.settings);
      for (const auto& [key, value] : overrides) settings.set(key, value);
      const SelectionTraits traits{.fixed_size = true, .partitioned = name == "exdyna"};
      return entry.predict(settings, expected_sizes(entry, traits, numel, 10, world)).bytes_sent;
    };
    CHECK(bytes_sent("allgather", 1000, 4) == 8.0 * 10 * 3);
    CHECK(bytes_sent("dense", 1000, 4) == 4.0 * 2 * 1000 * 3 / 4);
    CHECK(bytes_sent("dense", 1000, 1) == 0.0);
    // Words: k (P-1) indices and a ring of the largest union; 2k and the union's lists; a tree; k indices and a ring.
    CHECK(bytes_sent("index_union", 1000, 4) == 4 * (10.0 * 3 + 2.0 * 40 * 3 / 4));
    CHECK(bytes_sent("dsa", 1000, 4) == 4 * (2.0 * 10 + 2.0 * 40) * 3 / 4);
    CHECK(bytes_sent("dsa", 60, 4) == 4 * (2.0 * 10 + 60) * 3 / 4);
    CHECK(bytes_sent("gtopk", 1000, 4) == 4 * 4.0 * 10 * 3 / 4);
    CHECK(bytes_sent("gtopk", 1000, 4, {{"put_back", "exact"}}) == 4 * (4.0 * 10 * 3 / 4 + 2.0 * 10 * 3 / 4));
    CHECK(bytes_sent("gtopk", 1000, 4, {{"put_back", "naive"}}) == 4 * 2.0 * 10 * 3);
    // The mean over steps: one of 32 gathers the sums of all selections, 8 k, and the others 2 k.
    CHECK(bytes_sent("oktopk", 1000, 4) == 4 * (2.0 + 2.0 * 31 / 32 + 8.0 / 32) * 10 * 3 / 4);
    CHECK(bytes_sent("exdyna", 1000, 4) == 4 * 3.0 * 10 * 3 / 4);
    CHECK(bytes_sent("cltk", 1000, 4) == 4 * 3.0 * 10 * 3 / 4);
  }
}

}  // namespace dragonn::comm::test
