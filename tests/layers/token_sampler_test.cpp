// SPDX-License-Identifier: MIT
#include "layers/token_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"

namespace dragonn::layers {
namespace {

using Probabilities = std::map<std::int32_t, double>;

/// Logits of the probabilities 1/16, 6/16, 2/16, 2/16 and 5/16.
const std::vector<float> kLogits{std::log(1.0f), std::log(6.0f), std::log(2.0f), std::log(2.0f), std::log(5.0f)};

Probabilities probabilities(const SamplingRules& rules, const std::vector<float>& logits = kLogits) {
  TokenSampler sampler(rules, 1);
  Probabilities result;
  double sum = 0;
  for (const auto& [token, weight] : sampler.chances(logits)) sum += result[token] = weight;
  for (auto& [token, probability] : result) probability /= sum;
  return result;
}

void check(const Probabilities& given, const Probabilities& sixteenths, double of) {
  CHECK(given.size() == sixteenths.size());
  for (const auto& [token, share] : sixteenths) {
    REQUIRE(given.contains(token));
    CHECK(given.at(token) == doctest::Approx(share / of).epsilon(1e-6));
  }
}

std::vector<std::int32_t> drawn(const SamplingRules& rules, std::uint64_t seed, std::size_t count) {
  TokenSampler sampler(rules, seed);
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(sampler.draw(kLogits));
  return tokens;
}

}  // namespace

TEST_SUITE("layers") {
  TEST_CASE("the temperature divides the logits, and 0 leaves the most likely token") {
    check(probabilities({}), {{0, 1}, {1, 6}, {2, 2}, {3, 2}, {4, 5}}, 16);
    check(probabilities({.temperature = 0.5}), {{0, 1}, {1, 36}, {2, 4}, {3, 4}, {4, 25}}, 70);
    check(probabilities({.temperature = 0}), {{1, 1}}, 1);
    check(probabilities({.temperature = 0}, {3, 7, 7}), {{1, 1}}, 1);
    check(probabilities({.temperature = 0.5}, {-3e4f, 3e4f, 3e4f}), {{0, 0}, {1, 1}, {2, 1}}, 2);
  }

  TEST_CASE("top-k keeps the most likely tokens, the lower one of two that are alike") {
    check(probabilities({.top_k = 3}), {{1, 6}, {4, 5}, {2, 2}}, 13);
    check(probabilities({.top_k = 1}), {{1, 1}}, 1);
    check(probabilities({.top_k = 99}), {{0, 1}, {1, 6}, {2, 2}, {3, 2}, {4, 5}}, 16);
  }

  TEST_CASE("top-p keeps the fewest tokens that together have the probability, behind temperature and top-k") {
    check(probabilities({.top_p = 6.0 / 16 - 1e-6}), {{1, 1}}, 1);
    check(probabilities({.top_p = 6.0 / 16 + 1e-6}), {{1, 6}, {4, 5}}, 11);
    check(probabilities({.top_p = 12.0 / 16}), {{1, 6}, {4, 5}, {2, 2}}, 13);
    check(probabilities({.top_p = 1 - 1e-9}), {{0, 1}, {1, 6}, {2, 2}, {3, 2}, {4, 5}}, 16);
    check(probabilities({.top_p = 1e-9}), {{1, 1}}, 1);
    // 6 / 16 of all tokens are 6 / 11 of two of them, and 36 / 70 with half the temperature.
    check(probabilities({.top_k = 2, .top_p = 0.5}), {{1, 1}}, 1);
    check(probabilities({.temperature = 0.5, .top_p = 0.5}), {{1, 1}}, 1);
    check(probabilities({.temperature = 0, .top_p = 0.9}), {{1, 1}}, 1);
  }

  TEST_CASE("tokens are drawn by their probabilities, the same ones for a seed") {
    constexpr std::size_t kDraws = 16000;
    const std::vector<std::int32_t> tokens = drawn({}, 7, kDraws);
    for (const auto& [token, share] : Probabilities{{0, 1}, {1, 6}, {2, 2}, {3, 2}, {4, 5}}) {
      const double p = share / 16, deviation = std::sqrt(kDraws * p * (1 - p));
      CHECK(std::abs(static_cast<double>(std::ranges::count(tokens, token)) - kDraws * p) < 4 * deviation);
    }
    CHECK(drawn({}, 7, 50) == std::vector(tokens.begin(), tokens.begin() + 50));
    CHECK(drawn({}, 8, 50) != std::vector(tokens.begin(), tokens.begin() + 50));
    CHECK(std::ranges::count(drawn({.top_k = 2}, 7, 500), 1) + std::ranges::count(drawn({.top_k = 2}, 7, 500), 4) ==
          500);
  }

  TEST_CASE("a sampler refuses rules that mean nothing, and logits that are not finite") {
    for (const double temperature : {-0.1, std::nan(""), std::numeric_limits<double>::infinity()})
      CHECK_THROWS_WITH_AS(TokenSampler({.temperature = temperature}, 1), doctest::Contains("temperature "),
                           ConfigError);
    CHECK_THROWS_WITH_AS(TokenSampler({.top_k = -1}, 1), doctest::Contains("top_k -1"), ConfigError);
    for (const double top_p : {0.0, -1.0, 1.1, std::nan("")})
      CHECK_THROWS_WITH_AS(TokenSampler({.top_p = top_p}, 1), doctest::Contains("in (0, 1]"), ConfigError);
    TokenSampler sampler({}, 1);
    CHECK_THROWS_WITH_AS(sampler.draw(std::vector<float>{0, NAN}), doctest::Contains("logit of token 1 is nan"),
                         DataError);
  }
}

}  // namespace dragonn::layers
