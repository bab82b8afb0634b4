// SPDX-License-Identifier: MIT
/// Byte-pair encoding over bytes, as GPT-2 does it: text to tokens and back. Source: Radford et al., Language models
/// are unsupervised multitask learners, section 2.2; Sennrich et al., arXiv:1508.07909.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/text/tokenizer.h"

namespace dragonn::data {

/// Two tokens that are one token from here on.
struct Merge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  bool operator==(const Merge&) const = default;
};

/// The handling of bytes that are not UTF-8.
enum class InvalidUtf8 {
  kError,    ///< the text is refused
  kReplace,  ///< U+FFFD stands for every maximal part of a character, as in Python's errors="replace"
  kBytes,    ///< bytes are kept, and count as neither letter nor digit nor space; decoding restores them
};
constexpr auto choices(InvalidUtf8) {
  return std::array{"error", "replace", "bytes"};
}

/// Returns the end of the word that begins at `position`, by GPT-2's pattern: contractions ('s), then letters, digits
/// or other characters, each with an optional blank in front, then white space, whose last character goes to the next
/// word if that is a blank. Bytes that are not UTF-8 count as other characters. `position` < text.size().
std::size_t word_end(std::string_view text, std::size_t position);

/// Returns `text` with U+FFFD in place of what is not UTF-8.
std::string with_replacements(std::string_view text);

/// Takes the bytes of a text in parts, as tokens have them, and gives its characters as soon as they are whole. U+FFFD
/// stands for what is not UTF-8.
class CharacterStream {
 public:
  std::string add(std::string_view bytes);
  /// Returns what stands for a character that the end of the text cuts.
  std::string finish() { return with_replacements(std::exchange(cut_, {})); }

 private:
  std::string cut_;  ///< the beginning of a character
};

/// A vocabulary: tokens 0 to 255 are the bytes in GPT-2's order, token 256 + i is what merge i makes, and the last one
/// is the end of a text, which no text contains.
class BytePairs final : public Tokenizer {
 public:
  static constexpr std::int32_t kBytes = 256;
  /// Merges that tokens of 16 bits have a number for.
  static constexpr std::size_t kMaxMerges = 65536 - kBytes - 1;

  /// @param merges each of bytes and of tokens that earlier merges make, so that no two tokens are the same bytes.
  explicit BytePairs(std::vector<Merge> merges);
  /// Reads GPT-2's files: vocab.bpe and encoder.json, or merges.txt and vocab.json, as Hugging Face calls them.
  /// @throws ConfigError if one is missing; DataError naming file and line of a merge of something that no earlier line
  /// makes, or file and token where both disagree.
  static BytePairs read(const std::filesystem::path& folder);

  std::size_t size() const override { return tokens_.size() + 1; }
  std::string_view bytes(std::int32_t token) const override {
    return token == end_of_text() ? std::string_view() : tokens_.at(static_cast<std::size_t>(token));
  }
  /// Makes an encoder of any bytes, which remembers the words that it has seen. O(n log n) for a word of n bytes.
  std::unique_ptr<TextEncoder> encoder() const override;
  /// Writes vocab.bpe and encoder.json.
  void write(const std::filesystem::path& folder) const override;

  const std::vector<Merge>& merges() const { return merges_; }
  std::int32_t token_of_byte(unsigned char byte) const { return byte_tokens_[byte]; }
  /// Returns the number of the merge of two tokens, or -1.
  std::int32_t rank(std::int32_t left, std::int32_t right) const;

 private:
  struct Slot {
    std::uint64_t pair;
    std::int32_t rank;
  };

  std::array<std::int32_t, kBytes> byte_tokens_;
  std::vector<std::string> tokens_;
  std::vector<Merge> merges_;
  std::vector<Slot> ranks_;  ///< a hash table with open addresses, a power of two of slots, at most half full
};

/// Returns merges for a vocabulary of `size` tokens: again and again the pair that occurs most often in the words, of
/// equal ones that with the smaller left, then right token. Fewer if no pair occurs twice.
/// @param words with the number of their occurrences, cut by word_end.
std::vector<Merge> train_merges(const std::unordered_map<std::string, std::uint64_t>& words, std::size_t size);

}  // namespace dragonn::data
