// SPDX-License-Identifier: MIT
#include "data/speech/edit_distance.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "data/folder.h"

namespace dragonn::data {
namespace {

/// Computes the table of distances between prefixes row by row; only one row is kept.
template <class Sequence>
std::size_t distance(const Sequence& a, const Sequence& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for_each_word(text, [&](std::string_view word) { words.push_back(word); });
  return words;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  return distance(a, b);
}

TextErrors character_errors(std::string_view truth, std::string_view recognized) {
  return {distance(truth, recognized), truth.size()};
}

TextErrors word_errors(std::string_view truth, std::string_view recognized) {
  const std::vector<std::string_view> words = words_of(truth);
  return {distance(words, words_of(recognized)), words.size()};
}

}  // namespace dragonn::data
