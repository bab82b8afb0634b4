// SPDX-License-Identifier: MIT
/// Tokens and their numbers. Vocabulary: the words or characters of a text. WordPiece: pieces of words from a given
/// vocabulary, as of BERT.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dragonn::data {

struct TokenHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view token) const { return std::hash<std::string_view>{}(token); }
};
/// The numbers of tokens, which are found without a copy of the token.
using TokenNumbers = std::unordered_map<std::string, std::int32_t, TokenHash, std::equal_to<>>;

/// The unit of a text. kWord: each word, as blanks separate them, and kEndOfLine at each line's end (an empty line is
/// that mark alone; a last line without a newline has one too). kCharacter: every character, the newline included.
enum class TokenLevel { kWord, kCharacter };
constexpr auto choices(TokenLevel) {
  return std::array{"word", "character"};
}

inline constexpr std::string_view kUnknownToken = "<unk>";
inline constexpr std::string_view kEndOfLine = "<eos>";

/// The rules that decide which tokens get a number of their own.
struct VocabularyRules {
  TokenLevel level = TokenLevel::kWord;
  std::int64_t minimum_count = 1;  ///< tokens seen less often are kUnknownToken
  std::int64_t largest = 0;        ///< at most this many tokens, kUnknownToken among them; 0: no limit
};

/// The tokens of a text. Number 0 is kUnknownToken; the others follow by falling count, equal ones in the order of
/// their first appearance. If the text has kUnknownToken as a word of its own, that is number 0 as well.
class Vocabulary {
 public:
  static constexpr std::int32_t kUnknown = 0;

  /// @param text well-formed UTF-8.
  Vocabulary(std::string_view text, const VocabularyRules& rules);

  std::size_t size() const { return tokens_.size(); }
  const std::string& token(std::int32_t number) const { return tokens_[static_cast<std::size_t>(number)]; }
  std::int32_t number(std::string_view token) const;
  /// Returns the text as numbers.
  std::vector<std::int32_t> encode(std::string_view text) const;

 private:
  TokenLevel level_;
  std::vector<std::string> tokens_;
  TokenNumbers numbers_;
};

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
  std::int32_t classify() const { return classify_; }  ///< [CLS]
  std::int32_t separator() const { return separator_; }
  std::int32_t padding() const { return padding_; }
  /// Returns the pieces of a text. @param text well-formed UTF-8 of less than 4 GiB.
  std::vector<Piece> encode(std::string_view text) const;

 private:
  struct Word;

  std::int32_t required(const std::string& token, const std::filesystem::path& path) const;
  void append(const Word& word, std::vector<Piece>& pieces) const;

  bool lower_case_;
  TokenNumbers numbers_;
  std::int32_t unknown_ = 0, classify_ = 0, separator_ = 0, padding_ = 0;
};

}  // namespace dragonn::data
