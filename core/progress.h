// SPDX-License-Identifier: MIT
/// Progress: reports on the standard error how far a long command is.
#pragma once

#include <string>

#include "core/clock.h"

namespace dragonn {

/// Reports progress. A terminal shows one line, which is rewritten; elsewhere lines are added, at most one in
/// `seconds`. A command that ends sooner reports nothing. One thread uses it.
class Progress {
 public:
  /// @param seconds from a line to the next; 0: a line for every report.
  Progress(std::string name, bool enabled, double seconds);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Sets the amount of work, in any unit: the remaining time is estimated by it.
  void plan(double work) { planned_ = work; }
  /// Shows on a terminal what comes next, where that takes long.
  void announce(const std::string& what);
  /// Adds work that is done. @param what it was.
  void advance(double work, const std::string& what);
  /// Clears the terminal's line, so that other output can follow.
  void finish();

 private:
  void show(const std::string& text);

  std::string name_;
  bool enabled_;
  bool is_terminal_;
  double interval_;
  WallClock clock_;
  double shown_ = 0;
  bool is_on_screen_ = false;
  double planned_ = 0;
  double done_ = 0;
};

}  // namespace dragonn
