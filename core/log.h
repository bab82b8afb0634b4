// SPDX-License-Identifier: MIT
/// Logging: one line per event, to the terminal and to a run's log.txt. Rank 0 speaks; other ranks only warn.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>

#include <fmt/core.h>

namespace dragonn::log {

enum class Level { kDebug, kInfo, kWarning, kError };
constexpr auto choices(Level) {
  return std::array{"debug", "info", "warning", "error"};
}

/// Lines below this level are dropped. Default: kInfo.
void set_level(Level level);
/// Also append every line to this file (a run's log.txt). An empty path stops that.
void set_file(const std::filesystem::path& path);
/// Writes one line. `rank` is prefixed to warnings and errors of ranks other than 0; their other lines are dropped.
/// Thread safe.
void write(Level level, int rank, const std::string& line);
/// Writes an info line of rank 0 to the log file, and to stderr unless that is a terminal: there the progress line says
/// as much. Thread safe.
void write_note(const std::string& line);
/// Shows a transient progress line on a terminal (overwritten by the next), or nothing when stderr is no terminal.
void progress(const std::string& line);
/// Columns of the terminal behind stderr as it is now; 0 when stderr is no terminal.
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

}  // namespace dragonn::log
