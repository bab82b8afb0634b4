// SPDX-License-Identifier: MIT
/// Elastic runs: a process that trains in one group of workers after the other, and the replay of such a run.
/// docs/reliability.md explains the protocol.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "comm/elastic/coordinator.h"
#include "comm/elastic/member.h"
#include "trainer/run/run.h"

namespace dragonn::trainer {

/// Returns what the coordinator of a run needs. @param workers of the first generation.
comm::CoordinatorOptions coordinator_options(const CommConfig& config, int workers);

/// Trains as member `id` until the run ends, or this process is no member any more. Returns the exit code.
/// @throws CommError if the coordinator does not come; what ends this rank alone: the others go on.
int run_elastic(const Job& job, int id);

/// The run that is to be repeated, and how far.
struct ReplayRequest {
  std::filesystem::path run;           ///< the folder of an elastic run
  std::filesystem::path output;        ///< the folder of the replay
  std::optional<std::uint64_t> until;  ///< ends after so many steps
  std::optional<int> member;           ///< writes the state that it then has
};

/// Repeats a run on local workers, one for each member, and compares the parameters with the run's at the beginning of
/// every generation and at its end. Returns the exit code.
/// @throws ConfigError, DataError; Error naming generation and hashes where they differ.
int replay(const ReplayRequest& request);

}  // namespace dragonn::trainer
