// SPDX-License-Identifier: MIT
/// Answers: comparing an answer with the true ones, and finding the best span of a text.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "data/dataset.h"

namespace dragonn::data {

/// Returns an answer without case, ASCII punctuation, articles and superfluous blanks.
std::string normalized_answer(std::string_view answer);

/// Compares with each true answer and returns the best of each measure: equal when normalized; harmonic mean of
/// precision and recall over words. Source: SQuAD 1.1's official evaluation, Rajpurkar et al., arXiv:1606.05250,
/// section 6.1.
AnswerScore score_answer(std::string_view answer, std::span<const std::string> truths);

/// A span of tokens, both ends included, and its score.
struct TokenSpan {
  std::size_t start = 0;
  std::size_t end = 0;
  float score = 0;  ///< start's logit plus end's
};

/// Returns the span with the largest score among those within [first, last] of at most `longest` tokens; of equal ones
/// the first. `first` <= `last` < sizes of both. Source: arXiv:1810.04805, section 4.2.
TokenSpan best_span(std::span<const float> starts, std::span<const float> ends, std::size_t first, std::size_t last,
                    std::size_t longest);

}  // namespace dragonn::data
