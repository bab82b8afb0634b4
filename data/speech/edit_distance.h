// SPDX-License-Identifier: MIT
/// Edit distance: how far a recognized text is from the true one, for character and word error rates.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace dragonn::data {

/// Insertions, deletions and substitutions that turn one sequence into the other, at least (Levenshtein). O(a b) time.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// Errors in a text, and how many there could be: an error rate is the sum of errors over the sum of units, so that
/// long texts count for more. May exceed 1.
struct TextErrors {
  std::size_t errors = 0;
  std::size_t units = 0;  ///< characters or words of the true texts

  TextErrors& operator+=(const TextErrors& other) {
    errors += other.errors;
    units += other.units;
    return *this;
  }
};

/// By bytes: alphabets of transcripts are single-byte.
TextErrors character_errors(std::string_view truth, std::string_view recognized);
/// By words between blanks.
TextErrors word_errors(std::string_view truth, std::string_view recognized);

}  // namespace dragonn::data
