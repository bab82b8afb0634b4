// SPDX-License-Identifier: MIT
/// StepTime: how long forward and backward of a step take.
#pragma once

#include <optional>
#include <string>

#include "data/dataset.h"
#include "trainer/config/config.h"

namespace dragonn::trainer {

/// The time of a step's forward and backward, and where it is from.
struct StepTime {
  double seconds = 0;
  double low = 0, high = 0;  ///< the range of the measured ones; equal to `seconds` where the time is given
  std::string source = {};   ///< "given by --step-seconds"
};

/// Local. Runs some steps of a config's model on its own data, one worker with comm.threads_per_worker threads on this
/// machine, and returns the median. Takes about eleven steps, or those of ten seconds.
/// @throws ConfigError, DataError of model or data.
StepTime measure_step(const RunSpec& config, const data::DatasetSplits& data);

}  // namespace dragonn::trainer
