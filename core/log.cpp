// SPDX-License-Identifier: MIT
#include "core/log.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"

namespace dragonn::log {
namespace {

/// State behind the functions of this file. A process has one terminal and, during a run, one log file.
struct State {
  std::mutex mutex;
  std::shared_ptr<spdlog::sinks::stderr_color_sink_mt> terminal =
      std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  spdlog::logger logger{"dragonn", terminal};
  std::size_t progress_length = 0;  ///< columns of the progress line that is shown; 0 if none is
  std::optional<Sink> sink;         ///< receives lines instead of the logger

  State() {
    logger.set_pattern("%H:%M:%S %^%L%$ %v");
    const char* no_color = std::getenv("NO_COLOR");  // no-color.org: any text but the empty one
    if (no_color != nullptr && *no_color != '\0') terminal->set_color_mode(spdlog::color_mode::never);
  }
};

State& state() {
  // One per process, as its terminal is.
  static State instance;
  return instance;
}

spdlog::level::level_enum spdlog_level(Level level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                   spdlog::level::err};
  return kLevels[static_cast<std::size_t>(level)];
}

/// Returns whether stderr is a terminal on which a line can be overwritten.
bool stderr_is_terminal() {
  static const bool is_terminal = [] {
    const char* kind = std::getenv("TERM");
    return ::isatty(STDERR_FILENO) != 0 && kind != nullptr && std::string_view(kind) != "dumb";
  }();
  return is_terminal;
}

/// Erases the progress line. The terminal may have become narrower, so that the line takes several rows.
void erase_progress(State& s) {
  if (s.progress_length == 0) return;
  const std::size_t columns = terminal_columns();
  std::fputc('\r', stderr);
  for (std::size_t rest = s.progress_length; columns > 0 && rest > columns; rest -= columns) {
    std::fputs("\033[A", stderr);
  }
  std::fputs("\033[J", stderr);
  s.progress_length = 0;
}

}  // namespace

void set_sink(Sink sink) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.sink = std::move(sink);
}

void set_level(Level level) {
  state().logger.set_level(spdlog_level(level));
}

void set_file(const std::filesystem::path& path) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  auto& sinks = s.logger.sinks();
  sinks.resize(1);
  if (path.empty()) return;
  require_regular_or_missing(path);
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string(), /*truncate=*/false);
    sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    sinks.push_back(std::move(sink));
    s.logger.flush_on(spdlog::level::info);
  } catch (const spdlog::spdlog_ex& error) {
    throw SystemError(fmt::format("cannot open log file {}: {}", path.string(), error.what()));
  }
}

void write(Level level, int rank, const std::string& text) {
  if (rank != 0 && level < Level::kWarning) return;
  const std::string line = (rank == 0 ? "" : fmt::format("[rank {}] ", rank)) + one_line_message(text);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.sink) {
    if (*s.sink && s.logger.should_log(spdlog_level(level))) (*s.sink)(level, line);
    return;
  }
  erase_progress(s);
  s.logger.log(spdlog_level(level), line);
}

void write_note(const std::string& text) {
  const std::string line = one_line_message(text);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!stderr_is_terminal()) return s.logger.info(line);
  if (!s.logger.should_log(spdlog::level::info)) return;
  const spdlog::details::log_msg message(s.logger.name(), spdlog::level::info, line);
  for (std::size_t i = 1; i < s.logger.sinks().size(); ++i) {
    s.logger.sinks()[i]->log(message);
    s.logger.sinks()[i]->flush();
  }
}

void progress(const std::string& line) {
  if (!stderr_is_terminal()) return;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  erase_progress(s);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  s.progress_length = line.size();
}

std::size_t terminal_columns() {
  if (!stderr_is_terminal()) return 0;
  constexpr std::size_t kUsual = 80;  // of a terminal that does not say it
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

}  // namespace dragonn::log
