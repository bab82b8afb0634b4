// SPDX-License-Identifier: MIT
#include "layers/token_sampler.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::layers {
namespace {

bool is_more_likely(const TokenChance& a, const TokenChance& b) {
  return std::tuple(-a.weight, a.token) < std::tuple(-b.weight, b.token);
}
bool is_less_likely(const TokenChance& a, const TokenChance& b) {
  return is_more_likely(b, a);
}

double sum_of(std::span<const TokenChance> chances) {
  double sum = 0;
  for (const TokenChance& chance : chances) sum += chance.weight;
  return sum;
}

/// Removes all but the most likely tokens: the fewest whose weights are `share` of the sum.
void keep_share(double share, std::vector<TokenChance>& chances) {
  const double wanted = share * sum_of(chances);
  std::ranges::make_heap(chances, is_less_likely);
  auto kept = chances.end();
  for (double sum = 0; sum < wanted && kept != chances.begin(); sum += kept->weight)
    std::pop_heap(chances.begin(), kept--, is_less_likely);
  chances.erase(chances.begin(), kept);
}

}  // namespace

TokenSampler::TokenSampler(const SamplingRules& rules, std::uint64_t seed) : rules_(rules), stream_(seed, "sample") {
  if (!(rules.temperature >= 0 && std::isfinite(rules.temperature)))
    throw ConfigError(fmt::format("temperature {}: valid are 0 (the most likely token) and more", rules.temperature));
  if (rules.top_k < 0) throw ConfigError(fmt::format("top_k {}: valid are 0 (all tokens) and more", rules.top_k));
  if (!(rules.top_p > 0 && rules.top_p <= 1))
    throw ConfigError(fmt::format("top_p {}: valid are numbers in (0, 1]", rules.top_p));
}

std::span<const TokenChance> TokenSampler::chances(std::span<const float> logits) {
  chances_.clear();
  for (const float logit : logits) {
    const auto token = static_cast<std::int32_t>(chances_.size());
    if (!std::isfinite(logit)) throw DataError(fmt::format("the model's logit of token {} is {}", token, logit));
    chances_.push_back({token, logit});
  }
  const auto k = static_cast<std::size_t>(rules_.temperature == 0 ? 1 : rules_.top_k);
  if (k > 0 && k < chances_.size()) {
    std::ranges::partial_sort(chances_, chances_.begin() + static_cast<std::ptrdiff_t>(k), is_more_likely);
    chances_.resize(k);
  }
  const double largest = std::ranges::max(chances_, {}, &TokenChance::weight).weight;
  const double temperature = rules_.temperature == 0 ? 1 : rules_.temperature;
  for (TokenChance& chance : chances_) chance.weight = std::exp((chance.weight - largest) / temperature);
  if (rules_.top_p < 1) keep_share(rules_.top_p, chances_);
  return chances_;
}

std::int32_t TokenSampler::draw(std::span<const float> logits) {
  const std::span<const TokenChance> all = chances(logits);
  double left = stream_.uniform_double() * sum_of(all);
  for (const TokenChance& chance : all)
    if ((left -= chance.weight) < 0) return chance.token;
  return all.back().token;  // rounding
}

}  // namespace dragonn::layers
