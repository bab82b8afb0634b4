// SPDX-License-Identifier: MIT
/// Vocabulary: the tokens of a text and their numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dragonn::data {

/// The unit of a text. kWord: each word, as blanks separate them, and kEndOfLine at each line's end (an empty line is
/// that mark alone; a last line without a newline has one too). kCharacter: every character, the newline included.
enum class TokenLevel { kWord, kCharacter };
/// Parses "word" or "character". @throws ConfigError.
TokenLevel token_level(const std::string& name);

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
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view token) const { return std::hash<std::string_view>{}(token); }
  };

  TokenLevel level_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> numbers_;
};

}  // namespace dragonn::data
