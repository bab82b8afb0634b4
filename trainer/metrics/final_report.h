// SPDX-License-Identifier: MIT
/// Final report: the result of a finished run on one screen. summary.json has the same and more for programs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/metrics/step_times.h"
#include "trainer/metrics/summary.h"

namespace dragonn::trainer {

/// The data of the report that the summary lacks.
struct RunOutcome {
  std::filesystem::path folder;
  StepTimes times;               ///< rank 0's, for the steps after first_step
  std::uint64_t first_step = 0;  ///< steps done before this process
  double wall_seconds = 0;       ///< wall time of this process, from its first step on
  double dense_bytes = 0;        ///< bytes that a dense ring allreduce would send per worker and step
  bool is_dense = false;         ///< true for the method dense
};

/// Returns the lines of the report, the result first.
std::vector<std::string> final_report(const Summary& summary, const RunOutcome& outcome);
/// Logs the report.
void log_final_report(const Summary& summary, const RunOutcome& outcome);

}  // namespace dragonn::trainer
