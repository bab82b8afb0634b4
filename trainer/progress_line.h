// SPDX-License-Identifier: MIT
/// ProgressLine: one line on the terminal that says where a run is and when it will end.
#pragma once

#include <cstdint>

#include "trainer/metrics.h"

namespace dragonn::trainer {

struct ProgressLine {
  std::uint64_t total_steps = 0;
  std::int64_t total_epochs = 0;
  double samples_per_second = 0;
  double seconds_left = 0;  ///< of wall time

  /// Overwrites the terminal's last progress line; nothing when standard error is no terminal.
  void show(const StepRecord& record) const;
};

}  // namespace dragonn::trainer
