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

/// @throws ConfigError if the file is missing, SystemError if it cannot be read.
std::vector<std::byte> read_file(const std::filesystem::path& path);
std::string read_text_file(const std::filesystem::path& path);

/// Writes `bytes` to a temporary neighbour, fsyncs, renames it over `path` and fsyncs the folder: after a crash `path`
/// is the old file or the new one. @throws SystemError (full disk, permission); the neighbour is removed.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// fsyncs a folder, which makes renames in it durable.
void sync_directory(const std::filesystem::path& path);

}  // namespace dragonn
