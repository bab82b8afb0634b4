// SPDX-License-Identifier: MIT
/// Token shards: files of numbered tokens, as llm.c writes them: 256 int32 (magic 20240520, version 1, the number of
/// tokens, zeros), then the tokens as uint16, little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace dragonn::data {

inline constexpr std::size_t kShardHeaderBytes = 1024;
/// The name of the file beside shards that has their vocabulary: {"vocabulary": 50257, ...}.
inline constexpr const char* kTokensFile = "tokens.json";

/// A shard that is mapped into memory: only the pages that are read take any.
class TokenShard {
 public:
  /// @throws ConfigError if the file is missing; DataError naming the file and its magic, version, or number of tokens
  /// if it is no shard, or truncated.
  explicit TokenShard(std::filesystem::path path);
  ~TokenShard();
  TokenShard(TokenShard&& other) noexcept;
  TokenShard& operator=(TokenShard&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::uint16_t> tokens() const;

 private:
  std::filesystem::path path_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Writes a shard atomically. @throws SystemError.
void write_token_shard(const std::filesystem::path& path, std::span<const std::uint16_t> tokens);

}  // namespace dragonn::data
