// SPDX-License-Identifier: MIT
/// Hashes of memory, for checksums and for comparing replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dragonn {

/// Returns the XXH3-64 hash.
std::uint64_t hash_bytes(std::span<const std::byte> bytes);
/// Returns the hash as 16 hexadecimal digits.
std::string hash_text(std::uint64_t hash);

}  // namespace dragonn
