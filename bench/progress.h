// SPDX-License-Identifier: MIT
/// Progress: tells on the standard error how far a benchmark is.
#pragma once

#include <chrono>
#include <string>

namespace dragonn::bench {

/// Where the standard error is a terminal, one line is rewritten; elsewhere lines are added, one in `seconds` at most.
/// A benchmark that ends sooner says nothing. One thread uses it, between measurements.
class Progress {
 public:
  /// @param seconds from a line to the next; 0: a line for every measurement.
  Progress(std::string name, bool enabled, double seconds);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Sets how much work there will be, in any unit: the rest of the time is estimated by it.
  void plan(double work) { planned_ = work; }
  /// Says on a terminal what is to be measured next, where that takes long and is one piece.
  void announce(const std::string& what);
  /// Adds work that is done. @param what was measured.
  void advance(double work, const std::string& what);
  /// Clears the terminal's line, so that other output can follow.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  void show(const std::string& text);
  std::string line(const std::string& what, double elapsed) const;

  std::string name_;
  bool enabled_;
  bool is_terminal_;
  double interval_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
  bool is_on_screen_ = false;
  double planned_ = 0;
  double done_ = 0;
};

}  // namespace dragonn::bench
