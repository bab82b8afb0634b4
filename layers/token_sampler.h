// SPDX-License-Identifier: MIT
/// TokenSampler: draws the next token of a text from a language model's logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/rng.h"

namespace dragonn::layers {

/// The rules are applied in this order, as in Hugging Face's transformers.
struct SamplingRules {
  double temperature = 1;  ///< divides the logits; 0: the most likely token, always
  std::int64_t top_k = 0;  ///< only the k most likely tokens are drawn; 0: all
  double top_p = 1;        ///< of those the fewest that together have this probability. Source: arXiv:1904.09751
};

/// A token that may be drawn.
struct TokenChance {
  std::int32_t token = 0;
  double weight = 0;  ///< its probability is its share of the sum of all weights
};

class TokenSampler {
 public:
  /// @throws ConfigError naming the rule and its valid values.
  TokenSampler(const SamplingRules& rules, std::uint64_t seed);

  /// Returns the tokens that may be drawn, in any order. O(n log k) for n tokens, of which the rules leave k. Ties go
  /// to the lower token. @throws DataError if a logit is not finite. The span is valid until the next call.
  std::span<const TokenChance> chances(std::span<const float> logits);
  /// Draws a token: the same ones for the same seed and logits. @throws likewise.
  std::int32_t draw(std::span<const float> logits);

 private:
  SamplingRules rules_;
  Rng stream_;
  std::vector<TokenChance> chances_;
};

}  // namespace dragonn::layers
