// SPDX-License-Identifier: MIT
/// StepEstimate: how long the exchanges of a step are expected to keep training waiting.
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

/// Buckets that travel together, and what is computed for them.
struct ExchangeStage {
  double ready = 1;  ///< share of backward after which their gradients are final
  double local_seconds = 0;
  comm::Prediction messages = {};
};

/// What the stages, one after the other, add to a step. With a backward time each begins as soon as its gradients are
/// final, beside backward; without one all begin after it.
double exposed_seconds(std::span<const ExchangeStage> stages, const comm::NetworkModel& network,
                       std::optional<double> backward_seconds = {});

/// By bucket: the share of backward after which its gradient is final, as far as the layers' operations tell.
std::vector<double> ready_shares(std::span<const layers::LayerSummary> layers, std::span<const Bucket> buckets);

/// What a run is told before it starts: which way of exchanging takes less time, and what would be better.
struct StepAdvice {
  double dense_seconds = 0;   ///< added to a step by dense exchanges as PyTorch DDP makes them; a lower bound
  double sparse_seconds = 0;  ///< by the exchanges that the run makes
  bool dense_overlaps = false;
  bool sparse_overlaps = false;
  /// Where the other one takes over, at the network's latency; empty: nowhere.
  std::optional<double> break_even_gbps = {};
  std::string remedy = {};    ///< a setting that is clearly faster than what the run does, or empty
  double remedy_seconds = 0;  ///< added to a step with it

  bool sparse_is_faster() const { return sparse_seconds < dense_seconds; }
};

}  // namespace dragonn::trainer
