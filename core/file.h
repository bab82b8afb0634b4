// SPDX-License-Identifier: MIT
/// Whole-file reads and durable writes, with errors that name the file and the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.h"

namespace dragonn {

/// A regular file that is open.
struct RegularFile {
  Descriptor descriptor;
  std::size_t bytes = 0;  ///< its size when it was opened
};

/// Opens a regular file at once, whatever is at `path`: a pipe could block for ever, a device has no end.
/// @param flags as of open(2).  @throws MissingFileError; ConfigError that names the kind of what is there instead: a
/// folder, a FIFO, a device, a socket; SystemError if it cannot be opened.
RegularFile open_regular_file(const std::filesystem::path& path, int flags = O_RDONLY);

/// Checks that a path may be written: nothing is there, or a regular file. @throws ConfigError naming what is there.
void require_regular_or_missing(const std::filesystem::path& path);

/// Reads a whole file. @throws as open_regular_file, DataError if it has more than `most_bytes`, SystemError if it
/// cannot be read, or has more bytes than the machine's memory.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::size_t most_bytes = SIZE_MAX);
std::string read_text_file(const std::filesystem::path& path, std::size_t most_bytes = SIZE_MAX);

/// Writes a file atomically: writes `bytes` to a temporary file beside it, fsyncs, renames, and fsyncs the folder.
/// After a crash `path` is the old file or the new one. @throws SystemError (full disk, permission), and the temporary
/// file is removed; ConfigError if something else than a file is there, which stays.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Fsyncs a folder, which makes renames in it durable.
void sync_directory(const std::filesystem::path& path);

}  // namespace dragonn
