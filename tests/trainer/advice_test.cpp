// SPDX-License-Identifier: MIT
/// Tests of the advice on a run's exchanges before it starts.
#include "trainer/cost_model/advice.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

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

/// Returns an arena of layers "1", "2" and so on, each with a matrix, and a vector unless that has no elements.
ParameterArena arena_of(std::size_t layers, std::size_t matrix, std::size_t vector = 0) {
  ParameterArena arena;
  for (std::size_t layer = 1; layer <= layers; ++layer) {
    arena.declare(fmt::format("{}.weight", layer), {static_cast<std::int64_t>(matrix), 1}, ParameterRole::kWeight);
    if (vector > 0)
      arena.declare(fmt::format("{}.bias", layer), {static_cast<std::int64_t>(vector)}, ParameterRole::kBias);
  }
  arena.lay_out();
  return arena;
}

/// Returns the advice to a run with this model, whose computing takes no time.
StepAdvice ask_about(const ParameterArena& arena, int ranks, const comm::NetworkModel& network,
                     std::vector<std::string> settings, bool native_is_tree = true) {
  settings.insert(settings.begin(), "compression.density=0.01");
  const RunSpec config = quick_config(settings);
  const std::vector<exchange::Bucket> buckets = exchange::make_buckets(arena, config.rules.buckets);
  SelectionQuestion question{config, buckets, {0.01}, ranks};
  question.arena = &arena;
  question.native_is_tree = native_is_tree;
  const bool quantizes = config.compression.quantizes();
  if (quantizes) question.densities = {};
  ProfileRow free = row(0);
  free.key.sparsifier = quantizes ? config.compression.quantizer.name : config.compression.sparsifier.name;
  free.key.density = quantizes ? 1 : 0.01;
  free.key.ranks = ranks;
  free.coding_seconds = 0;
  return decide(question, {.rows = {free}, .network = {}}, network).advice.value();
}

constexpr comm::NetworkModel kFar{.latency_seconds = 60e-3, .bytes_per_second = 4.5e9 / 8};
constexpr comm::NetworkModel kMiddling{.latency_seconds = 9e-3, .bytes_per_second = 4.5e9 / 8};

std::vector<exchange::Bucket> buckets_of(std::size_t count, std::size_t size) {
  std::vector<exchange::Bucket> buckets;
  for (std::size_t i = 0; i < count; ++i) {
    buckets.push_back({.name = std::to_string(i), .offset = i * size, .size = size, .sparse = true});
  }
  return buckets;
}

struct Asked {
  std::vector<exchange::Bucket> buckets;
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

  TEST_CASE("with two levels a node is told of its link, and that its workers share the work") {
    const RunSpec config = quick_config({"compression.method=topk"});
    const std::vector<exchange::Bucket> buckets = buckets_of(8, 1000);
    const comm::NetworkModel link{.latency_seconds = 1e-4, .bytes_per_second = 1e8};
    const auto advised = [&](const SelectionQuestion& question, double encode) {
      return decide(question, {.rows = {row(encode)}, .network = {}}, link);
    };
    for (const std::vector<int>& sizes : {std::vector<int>{2, 2, 2, 2}, {3, 2, 4, 2}}) {
      SelectionQuestion between{config, buckets, {0.1}, 11};
      between.ask_between(comm::Nodes::of_sizes(sizes));
      const TensorSelection of_nodes = advised(between, 1e-3);
      const StepAdvice alone = advised({config, buckets, {0.1}, 4}, 0.5e-3).advice.value();
      CHECK(of_nodes.ranks == 4);
      CHECK(of_nodes.advice->dense_seconds == alone.dense_seconds);
      CHECK(of_nodes.advice->sparse_seconds == doctest::Approx(alone.sparse_seconds));
      CHECK(of_nodes.advice->break_even_gbps == alone.break_even_gbps);
      const std::string text = describe_advice(of_nodes);
      CHECK(text.find("dense ones in DDP's buckets, with comm.hierarchy = \"node\",") != std::string::npos);
      CHECK(text.find("between 4 nodes of 2 workers") != std::string::npos);
      CHECK(describe_advice(parse_selection(to_json(of_nodes), "text")) == text);
    }
    SelectionQuestion flat{config, buckets, {0.1}, 4};
    flat.ask_between(comm::Nodes::of_size(4, 1));
    CHECK(to_json(advised(flat, 1e-3)) == to_json(advised({config, buckets, {0.1}, 4}, 1e-3)));
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
    const auto bucket = [](const char* name) { return exchange::Bucket{.name = name}; };
    const std::vector<exchange::Bucket> buckets{bucket("fc.weight"), bucket("conv2.weight"), bucket("conv.weight"),
                                                bucket("fc.bias..conv.bias")};
    const std::vector<double> shares = ready_shares(layers, buckets);
    CHECK(shares[0] == doctest::Approx(0.1));
    CHECK(shares[1] == doctest::Approx(0.4));
    CHECK(shares[2] == 1);
    CHECK(shares[3] == 1);
    CHECK(ready_shares(layers, std::vector<exchange::Bucket>{bucket("unknown")})[0] == 1);
  }

  TEST_CASE("dense is one ring for all small tensors, sparse an exchange of each group, and a word for both") {
    const StepAdvice fused = ask({buckets_of(20, 1000), kLatencyAlone});
    CHECK(fused.sparse_seconds == doctest::Approx(2 + 2));
    CHECK(fused.sparse_is_faster());
    CHECK(fused.remedy.empty());
    const StepAdvice advice =
        ask({.buckets = buckets_of(20, 1000), .network = kLatencyAlone, .settings = {"compression.fusion_mib=0"}});
    CHECK(advice.ring_seconds == doctest::Approx(6 + 2));
    CHECK(advice.sparse_seconds == doctest::Approx(20 * 2 + 2));
    CHECK_FALSE(advice.sparse_is_faster());
    CHECK(advice.remedy == "compression.fusion_mib = 25");
    CHECK(advice.remedy_seconds == doctest::Approx(2 + 2));
    // A bucket is 25 MiB: a model of four of them, and of a little more.
    constexpr std::size_t kBucket = (std::size_t{25} << 20) / 4;
    CHECK(ask({buckets_of(4, kBucket), kLatencyAlone}).ring_seconds == doctest::Approx(4 * 6 + 2));
    CHECK(ask({buckets_of(1, 4 * kBucket + 1), kLatencyAlone}).ring_seconds == doctest::Approx(5 * 6 + 2));
  }

  TEST_CASE("dense is compared by the fastest of its algorithms, and the setting for it is named") {
    const ParameterArena arena = arena_of(2, 200000);
    const std::vector<std::string> run{"compression.method=topk"};
    // 12 ranks: a ring of 22 messages, halving and doubling with a fold in 8, a tree in 6; 4 for the word, of which a
    // tree and a fold hide one.
    const StepAdvice tree = ask_about(arena, 12, kFar, run);
    CHECK(tree.ring_seconds == doctest::Approx(26 * 60e-3).epsilon(0.01));
    CHECK(tree.dense_setting == "comm.dense_algorithm = \"native\"");
    CHECK(tree.dense_seconds == doctest::Approx(9 * 60e-3).epsilon(0.06));
    const StepAdvice mpi = ask_about(arena, 12, kFar, run, /*native_is_tree=*/false);
    CHECK(mpi.dense_setting == "comm.dense_algorithm = \"rabenseifner\"");
    CHECK(mpi.dense_seconds == doctest::Approx(11 * 60e-3).epsilon(0.02));
    CHECK_FALSE(mpi.sparse_is_faster());
    // The run's own algorithm has no need of a setting; where bytes matter the ring is as good.
    const std::vector<std::string> chosen{"compression.method=topk", "comm.dense_algorithm=rabenseifner"};
    CHECK(ask_about(arena, 12, kFar, chosen, false).dense_setting.empty());
    CHECK(ask_about(arena, 12, kBytesAlone, run).dense_setting.empty());
  }

  TEST_CASE("the remedy is the best combination of settings, and is named with its time") {
    // As an MLP: the lists of two tensors beside a ring for the biases; one list takes 11 messages and the word 4.
    const ParameterArena mlp = arena_of(2, 200000, 512);
    const StepAdvice model = ask_about(mlp, 12, kFar, {"compression.method=topk", "compression.bucket=tensor"});
    CHECK(model.sparse_seconds == doctest::Approx(37 * 60e-3).epsilon(0.01));
    CHECK(model.remedy == "compression.include_vectors = \"yes\"");
    CHECK(model.remedy_seconds == doctest::Approx(15 * 60e-3).epsilon(0.01));
    const StepAdvice apart = ask_about(
        mlp, 12, kFar, {"compression.method=topk", "compression.bucket=tensor", "compression.select_tensors=1000"});
    CHECK(apart.remedy == "compression.bucket = \"model\", compression.include_vectors = \"yes\"");
    // As ResNet-56: with the vectors sparsified sparse is faster than dense, and nothing says the contrary.
    const ParameterArena resnet = arena_of(55, 15500, 64);
    const StepAdvice advice = ask_about(resnet, 6, kMiddling, {"compression.method=topk", "compression.bucket=tensor"});
    CHECK_FALSE(advice.sparse_is_faster());
    CHECK(advice.remedy == "compression.include_vectors = \"yes\"");
    CHECK(advice.remedy_beats_dense());
    CHECK(advice.remedy_seconds == doctest::Approx(8 * 9e-3).epsilon(0.03));
    // Nothing is proposed to a run that does so already.
    const StepAdvice done =
        ask_about(resnet, 6, kMiddling,
                  {"compression.method=topk", "compression.bucket=tensor", "compression.include_vectors=yes"});
    CHECK(done.sparse_seconds == doctest::Approx(advice.remedy_seconds));
    CHECK(done.remedy.empty());
  }

  TEST_CASE("a code that loses nothing is proposed where bytes are the cost, if its time is known") {
    const StepAdvice advice = ask_about(arena_of(1, 1000000), 4, kBytesAlone, {"compression.method=topk"});
    CHECK(advice.remedy == "compression.codec.indices = \"smallest\"");
    CHECK(advice.remedy_seconds == doctest::Approx(advice.sparse_seconds * 5 / 8).epsilon(0.02));
    CHECK(ask({buckets_of(1, 1000000), kBytesAlone}).remedy.empty());
  }

  TEST_CASE("quantizers are advised, too") {
    const comm::NetworkModel slow{.latency_seconds = 1e-4, .bytes_per_second = 35e6 / 8};
    const ParameterArena arena = arena_of(2, 200000);
    const StepAdvice many = ask_about(arena, 12, slow, {"compression.method=qsgd"});
    CHECK_FALSE(many.sparse_is_faster());
    const StepAdvice few = ask_about(arena, 2, slow, {"compression.method=qsgd"});
    CHECK(few.sparse_is_faster());
  }

  TEST_CASE("where the number of selected entries decides nothing is claimed") {
    const ParameterArena arena = arena_of(2, 200000);
    // The first steps of exdyna may select a hundred times as much as the settled ones.
    const comm::NetworkModel slow{.latency_seconds = 0, .bytes_per_second = 35e6 / 8};
    const StepAdvice varying = ask_about(arena, 6, slow, {"compression.method=exdyna"});
    CHECK(varying.sparse_is_faster());
    CHECK(varying.is_uncertain());
    CHECK(varying.first_steps > 0);
    CHECK(varying.first_range.high > varying.dense_seconds);
    const StepAdvice exact = ask_about(arena, 6, slow, {"compression.method=topk"});
    CHECK(exact.sparse_range.is_exact());
    CHECK_FALSE(exact.is_uncertain());
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

  TEST_CASE("of a rare exchange the advice names the bandwidth at which it takes 5 % of a round") {
    Asked asked{buckets_of(2, 100000), comm::NetworkModel::from_units(100, 1), row(1e-5), {}, 0.2};
    CHECK_FALSE(ask(asked).round_gbps);
    asked.settings = {"update.scheme=local", "update.inner_steps=30"};
    const double bandwidth = ask(asked).round_gbps.value();
    // Forward takes half of backward's time, so 30 steps compute 9 s.
    const auto share = [&](double gbps) {
      asked.network = comm::NetworkModel::from_units(100, gbps);
      const StepAdvice advice = ask(asked);
      CHECK(advice.round_gbps.value() == doctest::Approx(bandwidth));
      return advice.sparse_seconds / (9 + advice.sparse_seconds);
    };
    CHECK(share(bandwidth) == doctest::Approx(0.05));
    CHECK(share(10 * bandwidth) < 0.05);
    CHECK(share(bandwidth / 10) > 0.05);
    TensorSelection selection{.ranks = 4, .network = kFar, .densities = {{.density = 0.01, .tensors = {{}}}}};
    selection.advice = {.steps_per_exchange = 30, .round_gbps = 0.012};
    CHECK(describe_advice(selection).find("; H = 30: the exchange takes 5 % of a round at 12 Mbit/s; ") !=
          std::string::npos);
    asked.backward = {};
    CHECK_FALSE(ask(asked).round_gbps);
    asked.backward = 1e-6;  // less than latencies
    CHECK_FALSE(ask(asked).round_gbps);
  }

  TEST_CASE("an advice reads back from JSON to the same bits, and earlier files have none") {
    for (const char* scheme : {"synchronous", "local"}) {
      const RunSpec config = quick_config(
          {"compression.method=topk", "compression.memory=residual", fmt::format("update.scheme={}", scheme)});
      const std::vector<exchange::Bucket> buckets = buckets_of(20, 1000);
      const TensorSelection selection =
          decide({config, buckets, {0.1}, 4}, {.rows = {row(1e-5)}, .network = {}, .backward_seconds = 0.25},
                 {.latency_seconds = 1e-3, .bytes_per_second = 1e9 / 7});
      const std::string text = to_json(selection);
      CHECK(to_json(parse_selection(text, "again")) == text);
      CHECK(parse_selection(text, "again").backward_seconds == 0.25);
      CHECK(parse_profile(text, "again").backward_seconds == 0.25);
      CHECK(describe_advice(parse_selection(text, "again")) == describe_advice(selection));
      CHECK(selection.advice->round_gbps.has_value() == (scheme == std::string("local")));
    }
  }

  TEST_CASE("the headline claims no more than the numbers") {
    TensorSelection selection{.ranks = 4, .network = kFar, .densities = {{.density = 0.01, .tensors = {{}}}}};
    const auto headline = [&](const StepAdvice& advice) {
      selection.advice = advice;
      const std::string text = describe_advice(selection);
      return text.substr(0, text.find(':'));
    };
    StepAdvice advice{.dense_seconds = 2, .ring_seconds = 2, .sparse_seconds = 1};
    advice.sparse_range = {1, 1};
    CHECK(headline(advice) == "sparsifying pays");
    advice.sparse_range = {0.5, 3};
    CHECK(headline(advice).starts_with("sparse may be slower than dense"));
    CHECK(describe_advice(selection).find("exchanges add 1000 ms (500 to 3000 ms) to a step") != std::string::npos);
    advice.sparse_range = {3, 3};
    advice.sparse_seconds = 3;
    CHECK(headline(advice) == "dense is faster for everything");
    advice.remedy = "compression.bucket = \"model\"";
    advice.remedy_seconds = 1;
    CHECK(headline(advice) ==
          "dense is faster than these settings, and compression.bucket = \"model\" faster than both");
    advice.dense_seconds = 0.5;
    advice.dense_setting = "comm.dense_algorithm = \"rabenseifner\"";
    CHECK(headline(advice) == "dense is faster for everything");
    CHECK(describe_advice(selection).find("500 ms with comm.dense_algorithm = \"rabenseifner\" (a ring, as PyTorch "
                                          "DDP over gloo: 2000 ms)") != std::string::npos);
    selection.densities = {};
    advice.sparse_seconds = 0.1;
    advice.sparse_range = {0.1, 0.1};
    CHECK(headline(advice) == "quantizing pays");
    CHECK(describe_advice(selection).find(": quantized exchanges add") != std::string::npos);
  }
}

}  // namespace dragonn::trainer::testing
