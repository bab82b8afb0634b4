// SPDX-License-Identifier: MIT
/// Tests of the advice on a run's exchanges before it starts.
#include "trainer/cost_model/advice.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "tests/trainer/quick_run.h"

namespace dragonn::trainer::testing {
namespace {

constexpr comm::NetworkModel kBytesAlone{.latency_seconds = 0, .bytes_per_second = 1e6};
constexpr comm::NetworkModel kLatencyAlone{.latency_seconds = 1, .bytes_per_second = 1e30};

ExchangeStage stage(double ready, double local, double bytes) {
  return {.ready = ready, .local_seconds = local, .messages = {.payload = {1, bytes}}};
}

/// Times that do not depend on the size.
ProfileRow row(double encode, double dense = 0) {
  return {.key = {"topk", "residual", "sparse", 0.1, 4, 1},
          .numel = 1000,
          .runs = 10,
          .encode_seconds = encode,
          .dense_seconds = dense};
}

std::vector<Bucket> buckets_of(std::size_t count, std::size_t size) {
  std::vector<Bucket> buckets;
  for (std::size_t i = 0; i < count; ++i) {
    buckets.push_back({.name = std::to_string(i), .offset = i * size, .size = size, .sparse = true});
  }
  return buckets;
}

struct Asked {
  std::vector<Bucket> buckets;
  comm::NetworkModel network;
  ProfileRow profile = row(0);
  std::vector<std::string> settings = {};
  std::optional<double> backward = {};
  bool overlaps = false;
};

StepAdvice ask(const Asked& asked) {
  std::vector<std::string> settings{"compression.method=topk", "compression.memory=residual"};
  settings.insert(settings.end(), asked.settings.begin(), asked.settings.end());
  const RunSpec config = quick_config(settings);
  std::vector<double> ready;
  for (std::size_t i = 0; i < asked.buckets.size(); ++i) {
    ready.push_back(static_cast<double>(i + 1) / static_cast<double>(asked.buckets.size()));
  }
  const SelectionQuestion question{config, asked.buckets, {0.1}, 4, {}, ready, asked.overlaps};
  return decide(question, {.rows = {asked.profile}, .network = {}, .backward_seconds = asked.backward}, asked.network)
      .advice.value();
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("without a backward time stages follow each other behind it") {
    const std::vector<ExchangeStage> stages{stage(0.5, 1, 2e6), stage(1, 0.5, 1e6)};
    CHECK(exposed_seconds(stages, kBytesAlone) == doctest::Approx(4.5));
    CHECK(exposed_seconds({}, kBytesAlone) == 0);
  }

  TEST_CASE("beside backward a stage begins when its gradients are final and the one before has ended") {
    const std::vector<ExchangeStage> stages{stage(0.5, 1, 2e6), stage(1, 0.5, 1e6)};
    CHECK(exposed_seconds(stages, kBytesAlone, 10) == doctest::Approx(1.5));  // the last stage alone
    CHECK(exposed_seconds(stages, kBytesAlone, 4) == doctest::Approx(2.5));   // the first ends 1 s after backward
    const std::vector<ExchangeStage> early{stage(0.1, 1, 1e6)};
    CHECK(exposed_seconds(early, kBytesAlone, 10) == 0);
  }

  TEST_CASE("a gradient is ready when backward has passed its layer, by the layers' operations") {
    const std::vector<layers::LayerSummary> layers{{.name = "conv", .kind = "", .output = {}, .forward_flops = 60},
                                                   {.name = "conv2", .kind = "", .output = {}, .forward_flops = 30},
                                                   {.name = "fc", .kind = "", .output = {}, .forward_flops = 10}};
    const auto bucket = [](const char* name) { return Bucket{.name = name}; };
    const std::vector<Bucket> buckets{bucket("fc.weight"), bucket("conv2.weight"), bucket("conv.weight"),
                                      bucket("fc.bias..conv.bias")};
    const std::vector<double> shares = ready_shares(layers, buckets);
    CHECK(shares[0] == doctest::Approx(0.1));
    CHECK(shares[1] == doctest::Approx(0.4));
    CHECK(shares[2] == 1);
    CHECK(shares[3] == 1);
    CHECK(ready_shares(layers, std::vector<Bucket>{bucket("unknown")})[0] == 1);
  }

  TEST_CASE("dense is one ring for all small tensors, sparse an exchange of each group, and a word for both") {
    const StepAdvice fused = ask({buckets_of(20, 1000), kLatencyAlone});
    CHECK(fused.sparse_seconds == doctest::Approx(2 + 2));
    CHECK(fused.sparse_is_faster());
    CHECK(fused.remedy.empty());
    const StepAdvice advice =
        ask({.buckets = buckets_of(20, 1000), .network = kLatencyAlone, .settings = {"compression.fusion_mib=0"}});
    CHECK(advice.dense_seconds == doctest::Approx(6 + 2));
    CHECK(advice.sparse_seconds == doctest::Approx(20 * 2 + 2));
    CHECK_FALSE(advice.sparse_is_faster());
    CHECK(advice.remedy == "compression.bucket = \"model\"");
    CHECK(advice.remedy_seconds == doctest::Approx(2 + 2));
    // A bucket is 25 MiB: a model of four of them, and of a little more.
    constexpr std::size_t kBucket = (std::size_t{25} << 20) / 4;
    CHECK(ask({buckets_of(4, kBucket), kLatencyAlone}).dense_seconds == doctest::Approx(4 * 6 + 2));
    CHECK(ask({buckets_of(1, 4 * kBucket + 1), kLatencyAlone}).dense_seconds == doctest::Approx(5 * 6 + 2));
  }

  TEST_CASE("encoding counts for sparse exchanges, a ring's additions for dense ones") {
    const comm::NetworkModel nothing{.latency_seconds = 0, .bytes_per_second = 1e30};
    CHECK(ask({buckets_of(3, 1000), nothing, row(1, 0.1)}).sparse_seconds == doctest::Approx(3));
    CHECK(ask({buckets_of(3, 1000), nothing, row(1, 0.1)}).dense_seconds == doctest::Approx(0.3));
    CHECK(ask({buckets_of(1, 1000), nothing, row(0.1, 1)}).sparse_is_faster());
  }

  TEST_CASE("break-even is where both take as long, at the same latency") {
    const auto buckets = buckets_of(2, 100000);
    const ProfileRow costly = row(1e-5);
    const StepAdvice slow = ask({buckets, {.latency_seconds = 1e-4, .bytes_per_second = 1e6}, costly});
    REQUIRE(slow.sparse_is_faster());
    REQUIRE(slow.break_even_gbps);
    const auto at = [&](double gbps) { return ask({buckets, comm::NetworkModel::from_units(100, gbps), costly}); };
    CHECK(at(*slow.break_even_gbps * 0.99).sparse_is_faster());
    CHECK_FALSE(at(*slow.break_even_gbps * 1.01).sparse_is_faster());
    CHECK(at(*slow.break_even_gbps * 3).break_even_gbps.value() == doctest::Approx(*slow.break_even_gbps));
    // Fewer messages, fewer bytes and no computing: nowhere.
    CHECK_FALSE(ask({buckets_of(1, 100000), {.latency_seconds = 1e-4, .bytes_per_second = 1e6}}).break_even_gbps);
  }

  TEST_CASE("with a backward time dense overlaps, and the run if it does, else it is told to") {
    const comm::NetworkModel network{.latency_seconds = 0, .bytes_per_second = 1e6};
    Asked asked{buckets_of(4, 10000), network, row(0.01), {}, 1.0};
    const StepAdvice behind = ask(asked);
    CHECK(behind.dense_overlaps);
    CHECK_FALSE(behind.sparse_overlaps);
    asked.overlaps = true;
    const StepAdvice beside = ask(asked);
    CHECK(beside.sparse_overlaps);
    CHECK(beside.sparse_seconds < 0.3 * behind.sparse_seconds);
    CHECK(behind.remedy == "compression.overlap = true");
    CHECK(behind.remedy_seconds == doctest::Approx(beside.sparse_seconds));
  }

  TEST_CASE("an advice reads back from JSON to the same bits, and earlier files have none") {
    const RunSpec config = quick_config({"compression.method=topk", "compression.memory=residual"});
    const std::vector<Bucket> buckets = buckets_of(20, 1000);
    const TensorSelection selection =
        decide({config, buckets, {0.1}, 4}, {.rows = {row(1e-5)}, .network = {}, .backward_seconds = 0.25},
               {.latency_seconds = 1e-3, .bytes_per_second = 1e9 / 7});
    const std::string text = to_json(selection);
    CHECK(to_json(parse_selection(text, "again")) == text);
    CHECK(parse_selection(text, "again").backward_seconds == 0.25);
    CHECK(parse_profile(text, "again").backward_seconds == 0.25);
    CHECK(describe_advice(parse_selection(text, "again")) == describe_advice(selection));
  }
}

}  // namespace dragonn::trainer::testing
