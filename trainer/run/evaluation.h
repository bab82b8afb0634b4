// SPDX-License-Identifier: MIT
/// Evaluation over all ranks: every sample of a split exactly once, with batch-norm statistics averaged first.
/// Comparison of the ranks' parameters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "data/loader.h"
#include "layers/network.h"
#include "trainer/metrics/quality.h"

namespace dragonn::trainer {

/// The result over a whole split; equal on all ranks.
struct EvaluationResult {
  double loss = 0;                 ///< mean over samples, or over the time steps that have a label
  std::vector<Quality> qualities;  ///< the first one decides which evaluation is best
  std::uint64_t samples = 0;       ///< number of samples, or of time steps
};

/// Collective. Returns the mean over ranks of their running statistics, in host memory.
Buffer<float> mean_statistics(comm::Communicator& communicator, layers::Network& network);

/// Replaces this rank's running statistics by the mean over ranks while it lives, and restores them at the end, so that
/// evaluations do not change the training.
class AveragedStatistics {
 public:
  /// Collective. Averages the statistics.
  AveragedStatistics(comm::Communicator& communicator, layers::Network& network);
  ~AveragedStatistics();
  AveragedStatistics(const AveragedStatistics&) = delete;
  AveragedStatistics& operator=(const AveragedStatistics&) = delete;

 private:
  layers::Network& network_;
  Buffer<float> own_;  // host memory
};

/// Puts the model's parameters in the place of the network's while it lives, and restores those at the end. The
/// network's gradients keep them meanwhile.
class SharedParameters {
 public:
  /// @param model [parameters]; empty: the network's are the model's.
  SharedParameters(layers::Network& network, View<const float> model);
  ~SharedParameters();
  SharedParameters(const SharedParameters&) = delete;
  SharedParameters& operator=(const SharedParameters&) = delete;

 private:
  ParameterArena* arena_ = nullptr;  // null: nothing is restored
};

/// Collective. Runs this rank's shard of a split through the network as its statistics are now, and reduces.
EvaluationResult evaluate(comm::Communicator& communicator, layers::Network& network, data::EvaluationLoader& loader);

/// Collective. Returns XXH3-64 of the parameters, the same on all ranks. @throws comm::CollectiveError naming the ranks
/// that differ from rank 0, and the step.
std::uint64_t check_replicas(comm::Communicator& communicator, std::span<const float> parameters, std::uint64_t step);

/// Returns the batch in the form that a network takes.
layers::NetworkBatch network_batch(const data::Batch& batch);

}  // namespace dragonn::trainer
