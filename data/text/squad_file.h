// SPDX-License-Identifier: MIT
/// SQuAD 1.1: its files, questions about paragraphs whose answers are spans of these; and the comparison of answers.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/folder.h"

namespace dragonn::data {

/// An answer, and the byte of the paragraph at which it begins.
struct SquadAnswer {
  std::string text;
  std::size_t begin = 0;
};

struct SquadQuestion {
  std::string id;
  std::string text;
  std::size_t paragraph = 0;
  std::vector<SquadAnswer> answers;  ///< at least 1
};

struct SquadFile {
  std::vector<std::string> paragraphs;  ///< fewer than 4 GiB each
  std::vector<SquadQuestion> questions;
};

/// Reads a file. @param bad leaves out questions without an answer, or whose answer is not where the file says.
/// @throws ConfigError if the file is missing; DataError naming the file, and the byte if it is not JSON, the key if it
/// is not there or of another type, or the question's id.
SquadFile read_squad_file(const std::filesystem::path& path, BadSamples& bad);

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
