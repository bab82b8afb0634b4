// SPDX-License-Identifier: MIT
/// StepEstimate: the expected time for which the exchanges of a step delay training.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/network_model.h"
#include "comm/prediction.h"
#include "layers/network.h"
#include "trainer/exchange/buckets.h"

namespace dragonn::trainer {

/// Buckets that are sent together, and their computing.
struct ExchangeStage {
  double ready = 1;  ///< share of backward after which their gradients are final
  double local_seconds = 0;
  comm::Prediction messages = {};
};

/// Returns the time that the stages, one after the other, add to a step. With a backward time each begins as soon as
/// its gradients are final, during backward; without one all begin after it.
double exposed_seconds(std::span<const ExchangeStage> stages, const comm::NetworkModel& network,
                       std::optional<double> backward_seconds = {});

/// Returns, by bucket, the share of backward after which its gradient is final, as far as the layers' operations tell.
std::vector<double> ready_shares(std::span<const layers::LayerSummary> layers, std::span<const Bucket> buckets);

/// The advice to a run before it starts: the faster form of exchange, and a better setting.
struct StepAdvice {
  double dense_seconds = 0;   ///< added to a step by dense exchanges as PyTorch DDP makes them; a lower bound
  double sparse_seconds = 0;  ///< by the exchanges that the run makes
  bool dense_overlaps = false;
  bool sparse_overlaps = false;
  /// The bandwidth at which the other form becomes faster, at the network's latency; empty if there is none.
  std::optional<double> break_even_gbps = {};
  std::string remedy = {};    ///< a setting that is clearly faster than the run's, or empty
  double remedy_seconds = 0;  ///< added to a step with that setting

  bool sparse_is_faster() const { return sparse_seconds < dense_seconds; }
};

}  // namespace dragonn::trainer
