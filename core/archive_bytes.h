// SPDX-License-Identifier: MIT
/// Archives as bytes in memory, in the format of their files.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/archive.h"

namespace dragonn {

/// Returns the bytes that Archive::write would put in a file. O(size) time and memory.
std::vector<std::byte> to_bytes(const Archive& archive);

/// Reads such bytes. @param name stands for the file in errors. @throws DataError, as Archive::read.
Archive archive_from_bytes(std::span<const std::byte> bytes, const std::string& name);

}  // namespace dragonn
