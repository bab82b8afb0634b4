// SPDX-License-Identifier: MIT
/// Summary: the results of a finished run, written to summary.json, and on one screen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/component_traits.h"
#include "trainer/config/config.h"
#include "trainer/metrics/metrics.h"
#include "trainer/metrics/progress_report.h"

namespace dragonn::trainer {

struct Summary {
  std::optional<EvalRecord> final_eval;
  std::optional<EvalRecord> best_eval;
  std::uint64_t steps = 0;
  std::string ended_by;  ///< "epochs", "max_steps", "patience"
  double seconds_total = 0;
  std::optional<NetworkConfig> network = {};  ///< of a virtual cluster: all times here and in metrics.jsonl are virtual
  double throughput = 0;                      ///< samples per second of training steps, over all ranks
  double bytes_sent_total = 0;                ///< sum over ranks, for the gradient exchange and its headers
  ByteForecast predicted_bytes = {};  ///< of a step at the target density, before the run
  double density_mean = 1;                      ///< mean over steps of selected / n, itself a mean over ranks
  std::size_t tensors_sparse = 0;               ///< tensors sparsified in the last step
  std::size_t tensors_dense = 0;
  int world_size = 1;
  std::string backend;
  std::string device;  ///< "cpu", "cuda"
  std::string parameters_hash;
  std::string config_hash;
  std::vector<std::string> warnings;
};

/// Writes the file atomically. @throws SystemError.
void write_summary(const std::filesystem::path& path, const Summary& summary);

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
