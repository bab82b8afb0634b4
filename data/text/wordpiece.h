// SPDX-License-Identifier: MIT
/// WordPiece: cuts text into the pieces of words that a given vocabulary has, as BERT does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dragonn::data {

/// A token, and the bytes of the text that it stands for.
struct Piece {
  std::int32_t number = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// A tokenizer. Words end at spaces; punctuation and Chinese characters are words of their own. A word is cut into the
/// longest pieces, from left to right; one that cannot be, or has more than 100 characters, is [UNK]. Sources: Devlin
/// et al., arXiv:1810.04805; Wu et al., arXiv:1609.08144, section 4.1. Case and accents are removed as
/// data/text/utf8.h does: of Latin, Greek and Cyrillic letters.
class WordPiece {
 public:
  /// Reads a vocabulary: a token in each line, numbered from 0; pieces within words begin with ##.
  /// @param lower_case the vocabulary is uncased.  @throws ConfigError if the file is missing; DataError naming the
  /// file if [UNK], [CLS], [SEP] or [PAD] is not there, or naming the line if it is not UTF-8, empty, or there twice.
  WordPiece(const std::filesystem::path& path, bool lower_case);

  std::size_t size() const { return numbers_.size(); }
  std::int32_t unknown() const { return unknown_; }
  std::int32_t classify() const { return classify_; }  ///< [CLS]
  std::int32_t separator() const { return separator_; }
  std::int32_t padding() const { return padding_; }
  /// Returns the pieces of a text. @param text well-formed UTF-8 of less than 4 GiB.
  std::vector<Piece> encode(std::string_view text) const;

 private:
  struct Word;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view token) const { return std::hash<std::string_view>{}(token); }
  };

  std::int32_t required(const std::string& token, const std::filesystem::path& path) const;
  void append(const Word& word, std::vector<Piece>& pieces) const;

  bool lower_case_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> numbers_;
  std::int32_t unknown_ = 0, classify_ = 0, separator_ = 0, padding_ = 0;
};

}  // namespace dragonn::data
