// SPDX-License-Identifier: MIT
/// Whole-file reads and durable writes, with errors that name the file and the reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dragonn {

/// Reads a whole file. @throws ConfigError if it is missing or no regular file (a pipe could block for ever),
/// SystemError if it cannot be read.
std::vector<std::byte> read_file(const std::filesystem::path& path);
std::string read_text_file(const std::filesystem::path& path);

/// Writes a file atomically: writes `bytes` to a temporary file beside it, fsyncs, renames, and fsyncs the folder.
/// After a crash `path` is the old file or the new one. @throws SystemError (full disk, permission); the temporary file
/// is removed.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Fsyncs a folder, which makes renames in it durable.
void sync_directory(const std::filesystem::path& path);

}  // namespace dragonn
