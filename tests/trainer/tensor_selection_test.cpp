// SPDX-License-Identifier: MIT
#include "trainer/cost_model/tensor_selection.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/file.h"
#include "tests/trainer/quick_run.h"
#include "trainer/config/exchange_config.h"

namespace dragonn::trainer::testing {
namespace {

constexpr comm::NetworkModel kSlow{.latency_seconds = 1e-3, .bytes_per_second = 1e8};
constexpr comm::NetworkModel kFast{.latency_seconds = 1e-7, .bytes_per_second = 1e11};

/// A machine on which every tensor of these sizes takes 0.1 ms to encode and 0.01 ms to decode.
Profile flat_profile(const std::vector<double>& densities, int ranks) {
  Profile profile;
  for (const double density : densities) {
    for (const std::size_t numel : {16, 4096}) {
      profile.rows.push_back({.key = {"topk", "residual", "sparse", density, ranks, 1},
                              .numel = numel,
                              .runs = 10,
                              .encode_seconds = 1e-4,
                              .decode_seconds = 1e-5});
    }
  }
  return profile;
}

std::string json_of(const Profile& profile) {
  std::string text;
  for (const ProfileRow& row : profile.rows) text += (text.empty() ? "[" : ",\n") + to_json(row);
  return text + "]";
}

std::vector<exchange::Bucket> two_tensors_and_a_vector() {
  return {{.name = "a", .size = 1000, .sparse = true},
          {.name = "b", .offset = 1000, .size = 2000, .sparse = true},
          {.name = "bias", .offset = 3000, .size = 30}};
}

RunSpec topk_config(const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides{"compression.method=topk", "compression.memory=residual",
                                     "compression.select_tensors=cost_model", "compression.fusion_mib=0"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return quick_config(overrides);
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("a slow and a fast network make opposite decisions") {
  const RunSpec config = topk_config();
  const std::vector<exchange::Bucket> buckets = two_tensors_and_a_vector();
  const SelectionQuestion question{config, buckets, {0.1}, 4, {}};
  const Profile profile = flat_profile({0.1}, 4);
  const TensorSelection slow = decide(question, profile, kSlow), fast = decide(question, profile, kFast);
  CHECK(slow.tensors == std::vector<std::string>{"a", "b"});
  CHECK(bucket_choices(slow, buckets).front().is_sparse == std::vector<bool>{true, true, false});
  CHECK(bucket_choices(fast, buckets).front().is_sparse == std::vector<bool>{false, false, false});
  // One dense exchange for all has fewer latencies than two sparse ones and that of the vectors.
  CHECK_FALSE(slow.advice->sparse_is_faster());
  const TensorSelection thin = decide(question, profile, {.latency_seconds = 1e-5, .bytes_per_second = 1e5});
  CHECK(thin.advice->sparse_is_faster());
  CHECK(describe_advice(thin).find("dense wins above") != std::string::npos);
  CHECK(describe_advice(thin).starts_with("sparsifying pays: at density 0.1 exchanges add"));
  CHECK_FALSE(fast.advice->sparse_is_faster());
  CHECK(describe_advice(fast).starts_with("dense is faster for everything"));
  CHECK(describe_advice(fast).find("sparse wins below") != std::string::npos);
  const RunSpec all = topk_config({"compression.select_tensors=all"});
  const TensorSelection kept = decide({all, buckets, {0.1}, 4, {}}, profile, kFast);
  CHECK(kept.advice->sparse_seconds > fast.advice->sparse_seconds);
}

TEST_CASE("the table has a line per tensor with its times and decision, in columns") {
  const RunSpec config = topk_config();
  const std::vector<exchange::Bucket> buckets = two_tensors_and_a_vector();
  const TensorSelection selection = decide({config, buckets, {0.1}, 4}, flat_profile({0.1}, 4), kSlow);
  const std::vector<std::string> lines = describe(selection, 0.1);
  REQUIRE(lines.size() == 5);
  for (const char* word : {"tensor", "size", "T_full", "T_enc", "T_dec", "T_spr", "decision"})
    CHECK(lines[1].find(word) != std::string::npos);
  // 1.5 * 4000 bytes at 1e8 bytes/s; 3 * 800 bytes. Each of three groups has 6 latencies dense, two have 2 sparse.
  CHECK(lines[2] == "a          1000     0.0600    0.1000    0.0100    0.0240  sparse");
  CHECK(lines[4] == "latencies          18.0000                        4.0000  of 3 groups");
  CHECK(lines[2].find("sparse") == lines[1].find("decision"));
}

TEST_CASE("a selection reads back from its JSON to the same bits") {
  const RunSpec config = topk_config();
  const std::vector<exchange::Bucket> buckets = two_tensors_and_a_vector();
  TensorSelection selection =
      decide({config, buckets, {0.1, 0.025}, 4}, flat_profile({0.1, 0.025}, 4), {1.0 / 3e4, 1e9 / 7});
  selection.network_source = "measured";
  selection.profile_source = "somewhere";
  const std::string text = to_json(selection);
  CHECK(to_json(parse_selection(text, "again")) == text);
  const Profile profile = parse_profile(text, "again");
  CHECK(profile.rows.size() == 4);
  CHECK(profile.network->bytes_per_second == 1e9 / 7);
}

TEST_CASE("a selection for other buckets is refused") {
  const RunSpec config = topk_config();
  std::vector<exchange::Bucket> buckets = two_tensors_and_a_vector();
  const TensorSelection selection = decide({config, buckets, {0.1}, 4}, flat_profile({0.1}, 4), kSlow);
  buckets[0].name = "c";
  CHECK_THROWS_AS(bucket_choices(selection, buckets), DataError);
}

TEST_CASE("a profile that lacks a density of the schedule is refused with the command that measures it") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "p.json").string();
  write_file_atomically(path, json_of(flat_profile({0.1}, 4)));
  const RunSpec config = topk_config({"compression.profile=" + path});
  const std::vector<exchange::Bucket> buckets = two_tensors_and_a_vector();
  CHECK(given_profile({config, buckets, {0.1}, 4})->rows.size() == 2);
  CHECK_THROWS_WITH_AS(
      given_profile({config, buckets, {0.25, 0.0625, 0.1}, 4}),
      fmt::format(
          "compression.profile = \"{}\": no rows of sparsifier 'topk', density 0.25,0.0625, 4 ranks, device cpu; it "
          "has topk at density 0.1 for 4 ranks on cpu; measure them with: dragonn-bench profile --sparsifier topk "
          "--memory "
          "residual --density 0.25,0.0625 --ranks 4 --device cpu --json FILE",
          path)
          .c_str(),
      ConfigError);
}

TEST_CASE("costs are wanted where they decide, or where a network or a profile is given, and ranks exchange") {
  CHECK(wants_costs(topk_config(), 2));
  CHECK_FALSE(wants_costs(topk_config(), 1));
  const std::string all = "compression.select_tensors=all";
  CHECK_FALSE(wants_costs(topk_config({all}), 2));
  CHECK(wants_costs(topk_config({all, "compression.profile=p.json"}), 2));
  CHECK(wants_costs(topk_config({all, "network.model=alpha-beta", "network.preset=1gbe"}), 2));
  CHECK_FALSE(wants_costs(quick_config({"compression.select_tensors=cost_model"}), 2));
  const std::vector<std::string> network{"network.model=alpha-beta", "network.preset=1gbe"};
  CHECK_FALSE(wants_costs(quick_config(network), 2));
  CHECK(wants_costs(quick_config({"compression.method=qsgd", network[0], network[1]}), 2));
}

TEST_CASE("the densities of a schedule are found once each, without the dense ones") {
  const RunSpec config =
      topk_config({"compression.density_schedule=list", "compression.list.densities=[1.0, 0.5, 0.25, 0.5]"});
  CHECK(sparse_densities(config.compression, 60, 10) == std::vector<double>{0.5, 0.25, 0.1});
  CHECK(sparse_densities(config.compression, 15, 10) == std::vector<double>{0.5});
  const RunSpec by_rate =
      topk_config({"compression.density_schedule=rate", "compression.rate.densities=[1.0, 0.5, 0.2]"});
  CHECK(sparse_densities(by_rate.compression, 15, 10) == std::vector<double>{0.5, 0.2, 0.1});
}

TEST_CASE("all ranks choose alike, whatever is measured") {
  const RunSpec config = topk_config();
  const std::vector<exchange::Bucket> buckets = two_tensors_and_a_vector();
  for (const int ranks : {2, 3, 5}) {
    std::vector<std::string> chosen(static_cast<std::size_t>(ranks));
    comm::run_local(ranks, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
      const SelectionQuestion question{config, buckets, {0.5, 0.1}, communicator.size(), {}};
      chosen[static_cast<std::size_t>(communicator.rank())] = to_json(choose_tensors(communicator, question));
    });
    for (const std::string& text : chosen) CHECK(text == chosen[0]);
    const TensorSelection selection = parse_selection(chosen[0], "chosen");
    CHECK(selection.densities.size() == 2);
    CHECK(selection.network_source == "measured");
  }
}

TEST_CASE("decisions are for the slowest of links that differ") {
  const std::vector<exchange::Bucket> buckets = two_tensors_and_a_vector();
  const auto choose = [&](const std::vector<std::string>& links) {
    std::vector<std::string> network{"network.model=alpha-beta", "network.preset=10gbe"};
    network.insert(network.end(), links.begin(), links.end());
    const RunSpec config = topk_config(network);
    TensorSelection chosen;
    comm::run_local(2, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
      const SelectionQuestion question{config, buckets, {0.1}, communicator.size(), {}};
      TensorSelection own = choose_tensors(communicator, question);
      if (communicator.rank() == 0) chosen = std::move(own);
    });
    return chosen;
  };
  const TensorSelection equal = choose({}), slow = choose({"network.up_gbps=[10, 0.02]"});
  CHECK(equal.network.gbps() == doctest::Approx(10));
  CHECK(equal.network_source == "modelled (10gbe)");
  CHECK(slow.network.gbps() == doctest::Approx(0.02));
  CHECK(slow.network.latency_seconds == equal.network.latency_seconds);
  CHECK(slow.network_source == "modelled, the slowest link");
}

TEST_CASE("runs on the slow network equal runs without selection, on the fast one dense runs") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "p.json").string();
  write_file_atomically(path, json_of(flat_profile({0.1}, 3)));
  const auto run = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> overrides{"compression.profile=" + path, "network.model=alpha-beta"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return quick_run(topk_config(overrides), 3, folder.path() / name).parameters;
  };
  const std::string slow = "network.preset=1gbe", fast = "network.preset=100g-ib";
  const std::vector<float> sparse = run("slow", {slow});
  CHECK(sparse == run("all", {slow, "compression.select_tensors=all"}));
  const std::vector<float> dense = run("fast", {fast});
  CHECK(dense != sparse);
  CHECK(dense ==
        run("density-one", {slow, "compression.select_tensors=all", "compression.density_schedule=oktopk_dense"}));
}

TEST_CASE("momentum correction trains on where tensors are left dense") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "p.json").string();
  write_file_atomically(path, json_of(flat_profile({0.1}, 3)));
  const auto run = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> overrides{"compression.memory=momentum_correction", "compression.profile=" + path,
                                       "network.model=alpha-beta", "network.preset=100g-ib"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return quick_run(topk_config(overrides), 3, folder.path() / name).parameters;
  };
  CHECK(run("chosen", {}) ==
        run("dense", {"compression.select_tensors=all", "compression.density_schedule=oktopk_dense"}));
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
