// SPDX-License-Identifier: MIT
/// The final report: what a finished run tells a person on one screen. summary.json has the same and more for programs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/metrics/step_times.h"
#include "trainer/metrics/summary.h"

namespace dragonn::trainer {

/// What the report says beside the summary.
struct RunOutcome {
  std::filesystem::path folder;
  StepTimes times;               ///< rank 0's, of the steps after first_step
  std::uint64_t first_step = 0;  ///< done before this process
  double wall_seconds = 0;       ///< of this process, from the first step on
  double dense_bytes = 0;        ///< that a dense ring allreduce would send per worker and step
  bool is_dense = false;         ///< the method is dense
};

/// One line each, the result first.
std::vector<std::string> final_report(const Summary& summary, const RunOutcome& outcome);
/// Logs these lines.
void log_final_report(const Summary& summary, const RunOutcome& outcome);

}  // namespace dragonn::trainer
