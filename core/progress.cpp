// SPDX-License-Identifier: MIT
#include "core/progress.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace dragonn {
namespace {

constexpr double kTerminalSeconds = 0.2;  // from a rewriting to the next

}  // namespace

Progress::Progress(std::string name, bool enabled, double seconds)
    : name_(std::move(name)),
      enabled_(enabled),
      is_terminal_(::isatty(STDERR_FILENO) != 0),
      interval_(is_terminal_ ? std::min(seconds, kTerminalSeconds) : seconds) {}

void Progress::advance(double work, const std::string& what) {
  done_ += work;
  const double now = clock_.now();
  if (!enabled_ || now - shown_ < interval_) return;
  shown_ = now;
  if (planned_ <= 0) return show(fmt::format("{}: {} done, {:.0f} s so far", name_, what, now));
  const double share = std::min(1.0, done_ / planned_);
  show(fmt::format("{}: {:.0f} %, {:.0f} s so far, about {:.0f} s left ({} done)", name_, 100 * share, now,
                   now * (1 - share) / share, what));
}

void Progress::announce(const std::string& what) {
  if (enabled_ && is_terminal_) show(fmt::format("{}: {}", name_, what));
}

void Progress::show(const std::string& text) {
  if (is_terminal_) {
    fmt::print(stderr, "\r\033[K{}", text);
  } else {
    fmt::print(stderr, "{}\n", text);
  }
  std::fflush(stderr);
  is_on_screen_ = is_terminal_;
}

void Progress::finish() {
  if (is_on_screen_) fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  is_on_screen_ = false;
}

}  // namespace dragonn
