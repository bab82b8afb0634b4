// SPDX-License-Identifier: MIT
/// Tokenizing: text files to token shards, in parallel, such that a call that was stopped can go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "data/text/byte_pairs.h"

namespace dragonn::data {

/// The texts to tokenize, and the rules.
struct TokenizeJob {
  std::vector<std::filesystem::path> texts;            ///< each a text of its own, which a token ends
  std::vector<std::filesystem::path> validation = {};  ///< likewise, for the shards to evaluate on
  double held_out = 0;                     ///< share of the bytes of `texts`, their end, for evaluation instead
  std::filesystem::path output = {};       ///< a folder
  std::size_t shard_tokens = 100'000'000;  ///< a shard ends with the first piece of text that fills it
  std::size_t threads = 1;
  InvalidUtf8 invalid = InvalidUtf8::kError;
};

struct TokenizeResult {
  std::uint64_t train_tokens = 0;
  std::uint64_t validation_tokens = 0;
  std::uint64_t bytes = 0;          ///< of all texts
  std::uint64_t resumed_bytes = 0;  ///< of them, those that an earlier call had done
};

/// Writes train_000000.bin, ..., validation_000000.bin, ..., the tokenizer's files and, when all is done, tokens.json.
/// The shards do not depend on the number of threads, or on stops. A second call with the same job does nothing.
/// @param report is told the bytes done, after every piece.  @throws ConfigError if a text is missing, or the folder
/// has the shards of another job; DataError naming file and byte of what is not UTF-8; SystemError.
TokenizeResult tokenize(const TokenizeJob& job, const Tokenizer& tokenizer,
                        const std::function<void(std::uint64_t bytes, std::uint64_t of)>& report);

/// Returns the vocabulary of the characters of all of job.texts and job.validation. @throws as tokenize.
Characters find_characters(const TokenizeJob& job,
                           const std::function<void(std::uint64_t bytes, std::uint64_t of)>& report);

/// Returns the merges for a vocabulary of `size` tokens, counted over all of job.texts that is not held out.
/// @throws as tokenize.
BytePairs train_byte_pairs(const TokenizeJob& job, std::size_t size,
                           const std::function<void(std::uint64_t bytes, std::uint64_t of)>& report);

}  // namespace dragonn::data
