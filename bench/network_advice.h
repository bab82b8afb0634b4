// SPDX-License-Identifier: MIT
/// NetworkAdvice: the meaning of a network's latency and bandwidth for training on it.
#pragma once

#include <string>
#include <vector>

#include "comm/network_model.h"

namespace dragonn::bench {

/// The training runs that the exchange is predicted for.
struct AdvisedRuns {
  std::vector<std::string> models{"resnet20", "vgg16"};
  int ranks = 4;
  double density = 0.01;  ///< density of `topk` with the collective `allgather`
};

/// Returns lines that predict the seconds of a dense and of a sparse exchange per step (docs/algorithms.md, section 3),
/// say from which compute time on dense is cheap, and how a config names the network. @throws ConfigError for an
/// unknown model or a density outside (0, 1].
std::vector<std::string> network_advice(const comm::NetworkModel& network, const AdvisedRuns& runs);

}  // namespace dragonn::bench
