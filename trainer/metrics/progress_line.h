// SPDX-License-Identifier: MIT
/// Progress line: the progress of a run as one line for a terminal of any width, and as one for a log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dragonn::trainer {

struct ProgressNumbers {
  std::uint64_t step = 0;
  std::uint64_t total_steps = 0;
  double epoch = 0;
  std::int64_t total_epochs = 0;
  double loss = 0;
  double samples_per_second = 0;
  bool is_time_virtual = false;  ///< whether samples_per_second counts virtual time
  double bytes_per_step = 0;     ///< sent by a worker
  double exposed_share = 0;      ///< share of a step's time that is communication not hidden by computing
  double seconds_left = 0;       ///< wall time
};

/// Returns a line of at most `columns`: the fields that matter least are left out first.
std::string progress_line(const ProgressNumbers& numbers, std::size_t columns);
/// Returns a line with all fields except those that are true for a moment only.
std::string progress_note(const ProgressNumbers& numbers);

}  // namespace dragonn::trainer
