// SPDX-License-Identifier: MIT
#include "data/text/answers.h"

#include <algorithm>
#include <vector>

#include "data/folder.h"
#include "data/text/characters.h"

namespace dragonn::data {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for_each_word(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

/// Harmonic mean of precision and recall; a word counts as often as it is in both. Both may change their order.
double f1_of(std::vector<std::string> answer, std::vector<std::string> truth) {
  std::ranges::sort(answer);
  std::ranges::sort(truth);
  std::vector<std::string> common;
  std::ranges::set_intersection(answer, truth, std::back_inserter(common));
  if (common.empty()) return 0;
  return 2.0 * static_cast<double>(common.size()) / static_cast<double>(answer.size() + truth.size());
}

}  // namespace

std::string normalized_answer(std::string_view answer) {
  std::string plain;
  for (std::size_t position = 0; position < answer.size();) {
    const std::uint32_t character = lower_case(next_character(answer, position));
    if (character < 0x80 && is_punctuation(character)) continue;
    append_character(is_space(character) ? ' ' : character, plain);
  }
  std::string text;
  for (const std::string& word : words_of(plain)) {
    if (word == "a" || word == "an" || word == "the") continue;
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

AnswerScore score_answer(std::string_view answer, std::span<const std::string> truths) {
  const std::string given = normalized_answer(answer);
  AnswerScore best;
  for (const std::string& truth : truths) {
    const std::string wanted = normalized_answer(truth);
    if (given == wanted) best.exact_match = 1;
    best.f1 = std::max(best.f1, f1_of(words_of(given), words_of(wanted)));
  }
  return best;
}

TokenSpan best_span(std::span<const float> starts, std::span<const float> ends, std::size_t first, std::size_t last,
                    std::size_t longest) {
  TokenSpan best{first, first, starts[first] + ends[first]};
  for (std::size_t start = first; start <= last; ++start) {
    for (std::size_t end = start; end <= last && end - start < longest; ++end) {
      const float score = starts[start] + ends[end];
      if (score > best.score) best = {start, end, score};
    }
  }
  return best;
}

}  // namespace dragonn::data
