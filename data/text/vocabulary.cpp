// SPDX-License-Identifier: MIT
#include "data/text/vocabulary.h"

#include <algorithm>

#include "core/error.h"
#include "core/settings.h"
#include "data/folder.h"
#include "data/text/utf8.h"

namespace dragonn::data {
namespace {

/// Calls take(token) for each token of a text, in order.
template <class Take>
void split(std::string_view text, TokenLevel level, const Take& take) {
  if (level == TokenLevel::kWord) {
    return for_each_line(text, [&](std::string_view line) {
      for_each_word(line, take);
      take(kEndOfLine);
    });
  }
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t length = utf8_length(text, position);
    DRAGONN_CHECK(length > 0, "text that is not UTF-8 at byte {}", position);
    take(text.substr(position, length));
    position += length;
  }
}

struct Candidate {
  std::string_view token;
  std::int64_t count = 0;
};

}  // namespace

TokenLevel token_level(const std::string& name) {
  if (name == "word") return TokenLevel::kWord;
  if (name == "character") return TokenLevel::kCharacter;
  throw ConfigError(unknown_name_message("token level", name, {"character", "word"}));
}

Vocabulary::Vocabulary(std::string_view text, const VocabularyRules& rules)
    : level_(rules.level), tokens_{std::string(kUnknownToken)} {
  std::vector<Candidate> candidates;  // in the order of first appearance
  std::unordered_map<std::string_view, std::size_t> places;
  split(text, rules.level, [&](std::string_view token) {
    const auto [place, is_new] = places.try_emplace(token, candidates.size());
    if (is_new) candidates.push_back({token});
    ++candidates[place->second].count;
  });
  std::erase_if(candidates, [&](const Candidate& candidate) {
    return candidate.count < rules.minimum_count || candidate.token == kUnknownToken;
  });
  std::ranges::stable_sort(candidates, std::greater{}, &Candidate::count);
  if (rules.largest > 0 && candidates.size() >= static_cast<std::size_t>(rules.largest)) {
    candidates.resize(static_cast<std::size_t>(rules.largest) - 1);
  }
  for (const Candidate& candidate : candidates) tokens_.emplace_back(candidate.token);
  for (std::size_t number = 0; number < tokens_.size(); ++number) {
    numbers_.emplace(tokens_[number], static_cast<std::int32_t>(number));
  }
}

std::int32_t Vocabulary::number(std::string_view token) const {
  const auto found = numbers_.find(token);
  return found == numbers_.end() ? kUnknown : found->second;
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text) const {
  std::vector<std::int32_t> numbers;
  split(text, level_, [&](std::string_view token) { numbers.push_back(number(token)); });
  return numbers;
}

}  // namespace dragonn::data
