// SPDX-License-Identifier: MIT
/// Evaluation over all ranks: every sample of a split exactly once, with batch-norm statistics averaged first.
#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "data/loader.h"
#include "layers/network.h"

namespace dragonn::trainer {

/// Means over a split; equal on all ranks.
struct EvaluationResult {
  double loss = 0;
  double accuracy = 0;
  std::uint64_t samples = 0;
};

/// Replaces this rank's running statistics by the mean over ranks while it lives; then they are as before, so that
/// evaluating changes nothing of the training.
class AveragedStatistics {
 public:
  /// Collective.
  AveragedStatistics(comm::Communicator& communicator, layers::Network& network);
  ~AveragedStatistics();
  AveragedStatistics(const AveragedStatistics&) = delete;
  AveragedStatistics& operator=(const AveragedStatistics&) = delete;

 private:
  layers::Network& network_;
  Buffer<float> own_;
};

/// Collective. Runs this rank's shard through the network as its statistics are now, and reduces.
EvaluationResult evaluate(comm::Communicator& communicator, layers::Network& network, data::EvaluationLoader& loader);

}  // namespace dragonn::trainer
