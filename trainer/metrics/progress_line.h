// SPDX-License-Identifier: MIT
/// The progress of a run in words: one line for a terminal of any width, one for a log.
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
  bool is_time_virtual = false;  ///< that of samples_per_second
  double bytes_per_step = 0;     ///< sent by a worker
  double exposed_share = 0;      ///< of a step's time, for communication that nothing hides
  double seconds_left = 0;       ///< of wall time
};

/// At most `columns` long: the fields that matter least are left out first.
std::string progress_line(const ProgressNumbers& numbers, std::size_t columns);
/// All fields but those that are only true for a moment.
std::string progress_note(const ProgressNumbers& numbers);

}  // namespace dragonn::trainer
