// SPDX-License-Identifier: MIT
/// Tokenizer: a vocabulary of tokens, each of which stands for some bytes of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dragonn::data {

/// Encodes texts. One thread uses it.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  /// Appends the tokens of a text. @throws DataError for what the vocabulary has no token for.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& tokens) = 0;
};

class Tokenizer {
 public:
  static constexpr std::string_view kEndOfText = "<|endoftext|>";

  virtual ~Tokenizer() = default;
  /// Returns the number of tokens; the last one, which no text contains, is the end of a text.
  virtual std::size_t size() const = 0;
  /// Returns the bytes of a token; none of the end of a text. @param token in [0, size()).
  virtual std::string_view bytes(std::int32_t token) const = 0;
  /// Makes an encoder, which this object outlives.
  virtual std::unique_ptr<TextEncoder> encoder() const = 0;
  /// Writes the files that read_tokenizer reads. @throws SystemError.
  virtual void write(const std::filesystem::path& folder) const = 0;

  std::int32_t end_of_text() const { return static_cast<std::int32_t>(size()) - 1; }
  std::string decode(std::span<const std::int32_t> tokens) const;
};

/// Reads the tokenizer of a folder: GPT-2's vocab.bpe and encoder.json, the same as merges.txt and vocab.json, or
/// characters.json. @throws ConfigError if there is none; DataError naming the file and what is wrong in it.
std::unique_ptr<Tokenizer> read_tokenizer(const std::filesystem::path& folder);

/// A vocabulary of characters, in the order of their code points.
class Characters final : public Tokenizer {
 public:
  static constexpr const char* kFile = "characters.json";

  /// @param characters each well-formed UTF-8, ascending, at most 65,535.
  explicit Characters(std::vector<std::string> characters);
  /// Reads a list of strings. @throws ConfigError if the file is missing, DataError naming it.
  static Characters read(const std::filesystem::path& path);

  std::size_t size() const override { return characters_.size() + 1; }
  std::string_view bytes(std::int32_t token) const override;
  std::unique_ptr<TextEncoder> encoder() const override;
  void write(const std::filesystem::path& folder) const override;

 private:
  std::vector<std::string> characters_;
};

}  // namespace dragonn::data
