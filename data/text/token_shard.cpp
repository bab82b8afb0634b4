// SPDX-License-Identifier: MIT
#include "data/text/token_shard.h"

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"

namespace dragonn::data {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

constexpr std::int32_t kMagic = 20240520, kVersion = 1;
using Header = std::array<std::int32_t, kShardHeaderBytes / sizeof(std::int32_t)>;

}  // namespace

TokenShard::TokenShard(std::filesystem::path path) : path_(std::move(path)) {
  const RegularFile file = open_regular_file(path_);
  const auto fault = [&](const std::string& what) { return DataError(path_.string() + ": " + what); };
  if (file.bytes < kShardHeaderBytes) {
    throw fault(fmt::format("{} bytes are no token shard, whose header has {}", file.bytes, kShardHeaderBytes));
  }
  void* const memory = ::mmap(nullptr, file.bytes, PROT_READ, MAP_SHARED, file.descriptor.get(), 0);
  if (memory == MAP_FAILED)
    throw SystemError(fmt::format("{}: cannot be mapped: {}", path_.string(), std::strerror(errno)));
  memory_ = memory;
  bytes_ = file.bytes;
  Header header;
  std::memcpy(header.data(), memory_, sizeof header);
  const auto wrong = [&](const char* name, std::int32_t found, std::int32_t wanted) {
    ::munmap(memory_, bytes_);
    return fault(fmt::format("the header's {} is {}: a token shard has {}", name, found, wanted));
  };
  if (header[0] != kMagic) throw wrong("magic number", header[0], kMagic);
  if (header[1] != kVersion) throw wrong("version", header[1], kVersion);
  const std::size_t held = (bytes_ - kShardHeaderBytes) / sizeof(std::uint16_t);
  if (header[2] < 0 || static_cast<std::size_t>(header[2]) != held || bytes_ % sizeof(std::uint16_t) != 0) {
    throw wrong("number of tokens", header[2], static_cast<std::int32_t>(held));
  }
}

TokenShard::~TokenShard() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

TokenShard::TokenShard(TokenShard&& other) noexcept
    : path_(std::move(other.path_)), memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}

std::span<const std::uint16_t> TokenShard::tokens() const {
  const auto* const first = static_cast<const std::byte*>(memory_) + kShardHeaderBytes;
  return {reinterpret_cast<const std::uint16_t*>(first), (bytes_ - kShardHeaderBytes) / sizeof(std::uint16_t)};
}

void write_token_shard(const std::filesystem::path& path, std::span<const std::uint16_t> tokens) {
  std::vector<std::byte> bytes(kShardHeaderBytes + tokens.size_bytes());
  const Header header{kMagic, kVersion, static_cast<std::int32_t>(tokens.size())};
  std::memcpy(bytes.data(), header.data(), sizeof header);
  if (!tokens.empty()) std::memcpy(bytes.data() + kShardHeaderBytes, tokens.data(), tokens.size_bytes());
  write_file_atomically(path, bytes);
}

}  // namespace dragonn::data
