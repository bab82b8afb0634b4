// SPDX-License-Identifier: MIT
/// Run: from a request on the command line to a finished run folder.
#pragma once

#include <filesystem>
#include <string>

#include "comm/communicator.h"
#include "comm/local/local.h"
#include "data/dataset.h"
#include "trainer/config/config.h"
#include "trainer/worker.h"

namespace dragonn::trainer {

/// What all ranks of a run know before they meet.
struct Job {
  Config config;
  data::DatasetSplits data;
  RunFolder folder;
  std::string resume;  ///< "", "auto", a checkpoint folder or a run folder
};

/// How the workers of the local backend run: a virtual cluster where [network] models one.
/// @throws ConfigError if their work is to be measured and spreads over threads, which a worker's clock does not see.
comm::LocalOptions local_options(const Config& config);

/// Collective. Trains; returns the exit code (Worker::train).
/// Rank 0 prepares the run folder: the files of a run that lies there and is not resumed are moved to earlier-N in it,
/// never overwritten. @throws comm::AgreedError, CommError.
int run_training(const Job& job, comm::Communicator& communicator);

/// Collective. Evaluates a checkpoint on the test split; rank 0 prints one JSON object.
void run_evaluation(const Job& job, const std::filesystem::path& checkpoint, comm::Communicator& communicator);

}  // namespace dragonn::trainer
