// SPDX-License-Identifier: MIT
/// VirtualTrial: a few steps of a run on the virtual cluster that its config describes, for their time alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "layers/network.h"
#include "trainer/config/config.h"

namespace dragonn::trainer {

/// The network and data of a trial.
struct TrialModel {
  std::function<layers::Network(int rank)> make;  ///< of a rank, without memory yet; called by the ranks' threads
  data::DatasetSplits data;
};

struct TrialLength {
  std::uint64_t ahead = 1;    ///< rounds that do not count: a round is what an exchange of all buckets takes, with an
                              ///< exchange in every step a step
  std::uint64_t counted = 2;  ///< rounds that count, 1 or more
};

/// The virtual time of a trial, and its traffic.
struct TrialResult {
  /// Seconds of a step, by counted round: mean over the round's steps, of the rank that takes longest.
  std::vector<double> step_seconds;
  double ideal_seconds = 0;  ///< of a step on an ideal network, mean over the counted rounds
  double utilization = 0;    ///< share of the time in which a rank computes, mean over ranks
  double bytes_sent = 0;     ///< by a worker in a step for the exchange and its headers, mean over workers and steps
  double most_bytes = 0;     ///< the same of the worker that sends most

  /// Returns the mean over rounds.
  double seconds() const;
};

/// Returns the mean of trials of the parts of a run, of which each is this share of the steps. All have as many rounds.
TrialResult mean(std::span<const TrialResult> parts, std::span<const double> shares);

/// Runs a trial: real collectives, selections and codes, in virtual time. The run's folder, evaluations, checkpoints
/// and density schedule play no part: the density is that of compression.density, so that a run with several needs
/// several trials. Each worker has one thread. Needs the memory of the run's workers but for activations, in one
/// process.
/// @param config with network.model = "alpha-beta"; network.step_ms is the time of forward and backward, unless it
/// is 0.
/// @throws ConfigError if the parts do not fit together or the network has no such nodes, CommError after
/// comm.timeout_s of wall time without progress.
TrialResult run_trial(const RunSpec& config, const TrialModel& model, const TrialLength& length);

}  // namespace dragonn::trainer
