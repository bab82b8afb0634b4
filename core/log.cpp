// SPDX-License-Identifier: MIT
#include "core/log.h"

#include <memory>
#include <mutex>
#include <unistd.h>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "core/error.h"

namespace dragonn::log {
namespace {

/// The sinks behind the functions of this file. A process has one terminal and, while a run lasts, one log file.
struct State {
  std::mutex mutex;
  std::shared_ptr<spdlog::sinks::stderr_color_sink_mt> terminal =
      std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  spdlog::logger logger{"dragonn", terminal};
  bool progress_shown = false;

  State() { logger.set_pattern("%H:%M:%S %^%L%$ %v"); }
};

State& state() {
  static State instance;
  return instance;
}

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

bool stderr_is_terminal() {
  static const bool is_terminal = ::isatty(STDERR_FILENO) != 0;
  return is_terminal;
}

void erase_progress(State& s) {
  if (!s.progress_shown) return;
  std::fputs("\r\033[K", stderr);
  s.progress_shown = false;
}

}  // namespace

void set_level(Level level) {
  state().logger.set_level(spdlog_level(level));
}

void set_file(const std::filesystem::path& path) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  auto& sinks = s.logger.sinks();
  sinks.resize(1);
  if (path.empty()) return;
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string(), /*truncate=*/false);
    sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    sinks.push_back(std::move(sink));
    s.logger.flush_on(spdlog::level::info);
  } catch (const spdlog::spdlog_ex& error) {
    throw SystemError(fmt::format("cannot open log file {}: {}", path.string(), error.what()));
  }
}

void write(Level level, int rank, const std::string& line) {
  if (rank != 0 && level < Level::kWarning) return;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  erase_progress(s);
  if (rank == 0) {
    s.logger.log(spdlog_level(level), line);
  } else {
    s.logger.log(spdlog_level(level), "[rank {}] {}", rank, line);
  }
}

void progress(const std::string& line) {
  if (!stderr_is_terminal()) return;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  s.progress_shown = true;
}

}  // namespace dragonn::log
