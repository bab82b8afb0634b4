// SPDX-License-Identifier: MIT
/// Edit distance: the difference between a recognized text and the true one, for character and word error rates.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace dragonn::data {

/// Returns the smallest number of insertions, deletions and substitutions that turn one sequence into the other
/// (Levenshtein). O(a b) time.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The errors in a text, and its length. An error rate is the sum of errors over the sum of units, so long texts count
/// for more. It may exceed 1.
struct TextErrors {
  std::size_t errors = 0;
  std::size_t units = 0;  ///< characters or words of the true texts

  TextErrors& operator+=(const TextErrors& other) {
    errors += other.errors;
    units += other.units;
    return *this;
  }
};

/// Counts errors by bytes: alphabets of transcripts are single-byte.
TextErrors character_errors(std::string_view truth, std::string_view recognized);
/// Counts errors by words between blanks.
TextErrors word_errors(std::string_view truth, std::string_view recognized);

}  // namespace dragonn::data
