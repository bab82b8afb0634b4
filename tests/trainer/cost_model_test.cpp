// SPDX-License-Identifier: MIT
#include "trainer/cost_model/cost_model.h"

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/exchange/combinations.h"
#include "trainer/cost_model/cost_model_measure.h"
#include "trainer/cost_model/tensor_selection.h"

namespace dragonn::trainer::testing {
namespace {

using namespace exchange::testing;

ProfileRow row(std::size_t numel, double encode, double decode,
               const ProfileKey& key = {"topk", "residual", "sparse"}) {
  return {.key = key, .numel = numel, .runs = 10, .encode_seconds = encode, .decode_seconds = decode};
}

exchange::ExchangeRules rules_with(const std::string& algorithm) {
  exchange::ExchangeRules rules = rules_of({"topk", "allgather", "residual"});
  rules.dense.settings.set("algorithm", algorithm);
  return rules;
}

/// A tensor that travels alone, decided.
struct AloneCost {
  TensorCost tensor;
  GroupCost latencies;

  double full_seconds() const { return tensor.full_seconds + latencies.full_seconds; }
  double sparse_seconds() const { return tensor.sparse_seconds + latencies.sparse_seconds; }
};

AloneCost cost_alone(const comm::NetworkModel& network, int ranks, const ProfileRow& profile, double density,
                     const std::string& algorithm = "ring") {
  const exchange::ExchangeRules rules = rules_with(algorithm);
  const exchange::Bucket bucket{.name = "alone", .size = profile.numel, .sparse = true};
  const DensityCosts costs =
      CostModel{network, rules, ranks}.costs(std::span(&bucket, 1), CostCurve({profile}), density);
  return {costs.tensors.front(), costs.groups.front()};
}

std::string error_of(const std::string& text) {
  try {
    parse_profile(text, "p.json");
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kRow = R"({"version":1,"device":"cpu","sparsifier":"topk","memory":"residual","decode":"sparse",
"density":0.01,"ranks":4,"threads":1,"numel":1024,"runs":10,"encode_seconds":1e-5,"decode_seconds":2e-6})";

/// Returns kRow with one key's text replaced.
std::string row_with(const std::string& key, const std::string& value) {
  std::string text = kRow;
  const std::size_t begin = text.find(fmt::format("\"{}\":", key)) + key.size() + 3;
  return fmt::format("[{}]", text.replace(begin, text.find_first_of(",}", begin) - begin, value));
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("the cost model's test vector: 16 workers, 25 Gbit/s, 2^20 elements at density 0.001") {
    const comm::NetworkModel network{.latency_seconds = 20e-6, .bytes_per_second = 3.125e9};
    const AloneCost cost = cost_alone(network, 16, row(1 << 20, 1e-3, 1e-4), 0.001);
    CHECK(cost.full_seconds() == doctest::Approx(3.116582e-3).epsilon(1e-6));
    // The vector has k = 1048.576; here k is 1048, and an entry of 8 bytes goes to 15 others.
    const double rounding = 15 * 8 / 3.125e9;
    CHECK(std::abs(cost.sparse_seconds() - 0.120265e-3) < rounding);
    CHECK(std::abs(cost.full_seconds() - cost.sparse_seconds() - 2.996317e-3) < rounding);
    CHECK(cost.tensor.sparsified_seconds() ==
          cost.tensor.encode_seconds + cost.tensor.decode_seconds + cost.tensor.sparse_seconds);
  }

  TEST_CASE("a tensor is sparsified if encoding and decoding take less than the network saves") {
    const comm::NetworkModel network{.latency_seconds = 0, .bytes_per_second = 1e6};
    // 4 workers, 1000 elements: 2 * 3 * 1000 bytes dense, 3 * 80 bytes sparse at density 0.01.
    const double saved = (6000.0 - 240.0) / 1e6;
    const auto decision = [&](double encode, double decode) {
      return cost_alone(network, 4, row(1000, encode, decode), 0.01).tensor.is_sparse;
    };
    CHECK(decision(saved * 0.5, saved * 0.49));
    CHECK_FALSE(decision(saved * 0.5, saved * 0.51));
    CHECK_FALSE(cost_alone(network, 1, row(1000, 0, 0), 0.01).tensor.is_sparse);
  }

  TEST_CASE("what a dense exchange computes counts for it") {
    ProfileRow measured = row(1000, 1e-3, 0);
    measured.dense_seconds = 2e-3;
    const comm::NetworkModel fast{.latency_seconds = 0, .bytes_per_second = 1e15};
    CHECK(cost_alone(fast, 4, measured, 0.01).tensor.is_sparse);
    CHECK_FALSE(cost_alone(fast, 4, row(1000, 1e-3, 0), 0.01).tensor.is_sparse);
  }

  TEST_CASE("rabenseifner pays fewer latencies than the ring") {
    const comm::NetworkModel latency_only{.latency_seconds = 1, .bytes_per_second = 1e30};
    const auto cost = [&](const char* algorithm) {
      return cost_alone(latency_only, 8, row(100, 0, 0), 0.01, algorithm);
    };
    CHECK(cost("ring").full_seconds() == doctest::Approx(14));
    CHECK(cost("ring").sparse_seconds() == doctest::Approx(3));
    CHECK(cost("rabenseifner").full_seconds() == doctest::Approx(6));
  }

  TEST_CASE("a group's tensors are each what costs less, unless that pays latencies for one exchange more") {
    const auto tensor = [](double full, double sparse, std::size_t group = 0) {
      return TensorCost{.numel = 1, .full_seconds = full, .sparse_seconds = sparse, .group = group};
    };
    const auto choices = [](std::vector<TensorCost> tensors, const std::vector<GroupCost>& groups) {
      choose_sparse(tensors, groups);
      std::vector<bool> result;
      for (const TensorCost& each : tensors) result.push_back(each.is_sparse);
      return result;
    };
    using Choices = std::vector<bool>;
    CHECK(choices({tensor(9, 1), tensor(1, 2)}, {{.full_seconds = 0.5, .sparse_seconds = 0.5}}) ==
          Choices{true, false});
    // The dense exchange costs more than the second tensor gains by it; but where it is made anyway, nothing.
    CHECK(choices({tensor(9, 1), tensor(1, 2)}, {{.full_seconds = 5, .sparse_seconds = 0.5}}) == Choices{true, true});
    CHECK(choices({tensor(9, 1), tensor(1, 2)}, {{5, 0.5, /*always_dense=*/true}}) == Choices{true, false});
    CHECK(choices({tensor(2, 1), tensor(2, 1)}, {{.full_seconds = 1, .sparse_seconds = 4}}) == Choices{false, false});
    // Latencies that two tensors share, and that neither would pay for alone.
    CHECK(choices({tensor(4, 1), tensor(4, 1)}, {{5, 5, /*always_dense=*/true}}) == Choices{true, true});
    CHECK(choices({tensor(4, 1, 0), tensor(4, 1, 1)}, {{5, 5, true}, {5, 5, true}}) == Choices{false, false});
    CHECK(choices({tensor(1, 1)}, {{1, 1}}) == Choices{false});
  }

  TEST_CASE("times between two sizes are linear in the logarithm, beyond the ends linear in the size") {
    const CostCurve curve({row(4096, 5, 50), row(1024, 1, 10), row(16384, 9, 90)});
    CHECK(curve.encode_seconds(1024) == 1);
    CHECK(curve.encode_seconds(4096) == 5);
    CHECK(curve.encode_seconds(16384) == 9);
    CHECK(curve.encode_seconds(2048) == doctest::Approx(3));
    CHECK(curve.decode_seconds(8192) == doctest::Approx(70));
    CHECK(curve.encode_seconds(16384 + 12288) == doctest::Approx(13));
    CHECK(curve.encode_seconds(1024 - 192) == doctest::Approx(0.75));
    CHECK(CostCurve({row(4096, 5, 50), row(1024, 1, 10)}).encode_seconds(1) == 0);  // the line passes below 0
  }

  TEST_CASE("a profile of one size is proportional, of none or of one size twice an error") {
    CHECK(CostCurve({row(1000, 2, 4)}).decode_seconds(250) == 1);
    CHECK_THROWS_AS(CostCurve({}), ConfigError);
    CHECK_THROWS_WITH_AS(
        CostCurve({row(8, 1, 1), row(8, 2, 2)}),
        "a profile with two rows of sparsifier 'topk', density 1, 1 ranks and 8 elements: expected one "
        "of each size",
        ConfigError);
  }

  TEST_CASE("rows belong to a sparsifier, a density and a number of ranks, and other parts only decide among them") {
    const auto key = [](const char* sparsifier, const char* memory, double density, int ranks) {
      return ProfileKey{sparsifier, memory, "sparse", density, ranks, 1};
    };
    Profile profile;
    profile.rows = {row(1, 0, 0, key("topk", "residual", 0.01, 4)), row(2, 0, 0, key("topk", "none", 0.01, 4)),
                    row(3, 0, 0, key("dgc", "residual", 0.01, 4)), row(4, 0, 0, key("topk", "residual", 0.01, 8))};
    CHECK(rows_of(profile, key("topk", "none", 0.01, 4)).size() == 1);
    CHECK(rows_of(profile, key("topk", "none", 0.01, 4)).front().numel == 2);
    CHECK(rows_of(profile, key("topk", "momentum_correction", 0.01, 4)).size() == 2);
    CHECK(rows_of(profile, key("dgc", "none", 0.01, 4)).front().numel == 3);
    CHECK(rows_of(profile, key("topk", "residual", 0.02, 4)).empty());
    CHECK(rows_of(profile, key("topk", "residual", 0.01, 2)).empty());
  }

  TEST_CASE("a row reads back as it was written") {
    const Profile profile = parse_profile(fmt::format("[{}]", kRow), "p.json");
    REQUIRE(profile.rows.size() == 1);
    CHECK_FALSE(profile.network.has_value());
    CHECK(profile.rows[0].encode_seconds == 1e-5);
    CHECK(profile.rows[0].key.density == 0.01);
    const std::string written = to_json(profile.rows[0]);
    CHECK(to_json(parse_profile(fmt::format("[{}]", written), "again").rows[0]) == written);
  }

  TEST_CASE("a profile that is none names the file, the row and the key") {
    CHECK(error_of(fmt::format("[{}]", kRow)).empty());
    CHECK(error_of(row_with("ranks", "0")) == "p.json: row 0: ranks = 0: expected integer in [1, 1048576]");
    CHECK(error_of(row_with("encode_seconds", "-1")) ==
          "p.json: row 0: encode_seconds = -1: expected number of at least 0");
    CHECK(error_of(row_with("sparsifier", "7")) == "p.json: row 0: sparsifier = 7: expected string");
    CHECK(error_of(row_with("version", "2")) == "p.json: row 0: version = 2: expected 1");
    CHECK(error_of(row_with("density", "0")) == "p.json: row 0: density = 0: expected number above 0");
    CHECK(error_of("[{\"version\":1}]") == "p.json: row 0: device is missing: expected cpu | cuda");
    CHECK(error_of("[3]") == "p.json: row 0: expected an object");
    CHECK(error_of("{\"version\":1}") == "p.json: profile is missing: expected list");
    CHECK(error_of("[{").starts_with("p.json: no JSON: "));
    CHECK(error_of("").starts_with("p.json: no JSON: "));
  }

  TEST_CASE("every quantizer can be measured, and is told by its name") {
    const Buffer<float> gradient = profile_gradient(4096);
    for (const std::string& quantizer : Registry<codec::QuantizerEntry>::instance().names()) {
      CAPTURE(quantizer);
      const ProfiledExchange exchange{.quantizer = with_defaults<codec::QuantizerEntry>(quantizer),
                                      .memory = with_defaults<compress::MemoryEntry>("none"),
                                      .ranks = 3};
      const ProfileRow measured = measure_profile(exchange, gradient.view(), {.ahead = 1, .counted = 3});
      CHECK(measured.runs == 3);
      CHECK(measured.key.sparsifier == quantizer);
      CHECK(measured.key.density == 1);
      CHECK(measured.encode_seconds > 0);
      CHECK(measured.decode_seconds > 0);
      CHECK_FALSE(measured.coding_seconds);
    }
  }

  TEST_CASE("sizes are powers that bracket what is asked for, two of them at least") {
    CHECK(profile_sizes(1, 1, 2, 1 << 24) == std::vector<std::size_t>{1024, 2048});
    CHECK(profile_sizes(3000, 9000, 2, 1 << 24) == std::vector<std::size_t>{2048, 4096, 8192, 16384});
    CHECK(profile_sizes(5000, 100000000, 4, 1 << 16) == std::vector<std::size_t>{4096, 16384, 65536});
  }

  TEST_CASE("every sparsifier can be measured with every memory, in both forms of decoding") {
    const Buffer<float> gradient = profile_gradient(4096);
    for (const std::string& sparsifier : Registry<compress::SparsifierEntry>::instance().names()) {
      for (const std::string& memory : Registry<compress::MemoryEntry>::instance().names()) {
        CAPTURE(sparsifier);
        CAPTURE(memory);
        ProfiledExchange exchange{.sparsifier = with_defaults<compress::SparsifierEntry>(sparsifier),
                                  .memory = with_defaults<compress::MemoryEntry>(memory),
                                  .density = 0.01,
                                  .ranks = 3};
        for (const bool decode_dense : {false, true}) {
          exchange.decode_dense = decode_dense;
          const ProfileRow measured = measure_profile(exchange, gradient.view());
          CHECK(measured.numel == 4096);
          CHECK(measured.runs >= 10);
          CHECK(measured.encode_seconds > 0);
          CHECK(measured.decode_seconds > 0);
          CHECK(measured.coding_seconds.value_or(0) > 0);
          CHECK(measured.key.sparsifier == sparsifier);
        }
      }
    }
  }
}

}  // namespace dragonn::trainer::testing
