// SPDX-License-Identifier: MIT
#include "core/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace dragonn {

std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}
std::string hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace dragonn
