// SPDX-License-Identifier: MIT
/// Logging: one line per event, to the terminal and to a run's log.txt. Rank 0 logs everything; other ranks only log
/// warnings and errors.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

#include <fmt/core.h>

namespace dragonn::log {

enum class Level { kDebug, kInfo, kWarning, kError };
constexpr auto choices(Level) {
  return std::array{"debug", "info", "warning", "error"};
}

/// Drops lines below this level from now on. The default is kInfo.
void set_level(Level level);
/// Appends every line to this file (a run's log.txt), too, from now on. An empty path stops that.
void set_file(const std::filesystem::path& path);
/// Writes one line (one_line_message). Ranks other than 0 write warnings and errors only, with the rank as prefix.
/// Thread safe.
void write(Level level, int rank, const std::string& text);
/// Writes an info line of rank 0 to the log file. Also writes it to stderr unless that is a terminal, where the
/// progress line shows the same. Thread safe.
void write_note(const std::string& text);
/// Shows a transient progress line, which the next one overwrites; does nothing if stderr is no terminal.
void progress(const std::string& line);
/// Returns the current width of the terminal behind stderr in columns; 0 if stderr is no terminal.
std::size_t terminal_columns();

template <class... Args>
void info(int rank, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kInfo, rank, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void note(fmt::format_string<Args...> format, Args&&... args) {
  write_note(fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning(int rank, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarning, rank, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(int rank, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kError, rank, fmt::format(format, std::forward<Args>(args)...));
}

/// Receives one line without its end. Called by one thread at a time; it must not log.
using Sink = std::function<void(Level, const std::string&)>;

/// Hands every line from now on to `sink` instead of the terminal. An empty sink drops them. Thread safe.
void set_sink(Sink sink);

}  // namespace dragonn::log
