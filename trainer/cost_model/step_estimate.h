// SPDX-License-Identifier: MIT
/// StepEstimate: the expected time for which the exchanges of a step delay training.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/network_model.h"
#include "comm/prediction.h"
#include "exchange/buckets.h"
#include "layers/network.h"

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
std::vector<double> ready_shares(std::span<const layers::LayerSummary> layers,
                                 std::span<const exchange::Bucket> buckets);

/// The shortest and the longest time that exchanges may take.
struct SecondsRange {
  double low = 0;
  double high = 0;

  bool is_exact() const { return low == high; }
  bool holds(double seconds) const { return low < seconds && seconds < high; }
};

/// The advice to a run before it starts: the faster form of exchange, and a better setting.
struct StepAdvice {
  /// Added to a step by the fastest dense exchanges, in the buckets of PyTorch DDP; a lower bound.
  double dense_seconds = 0;
  std::string dense_setting = {};  ///< the algorithm that makes them, as a setting, if it is not the run's; or empty
  double ring_seconds = 0;         ///< by a ring, as PyTorch DDP over gloo makes them
  double sparse_seconds = 0;       ///< by the exchanges that the run makes, sparsified or quantized; expected
  SecondsRange sparse_range = {};  ///< of these, as far as the number of selected entries is known
  SecondsRange first_range = {};   ///< of the first steps, before that number has settled
  std::uint64_t first_steps = 0;   ///< 0: it has from the beginning
  bool dense_overlaps = false;
  bool sparse_overlaps = false;
  /// The bandwidth at which the other form becomes faster, at the network's latency; empty if there is none.
  std::optional<double> break_even_gbps = {};
  /// The settings that make the run's exchanges fastest, if they are clearly faster than the run's: "key = value",
  /// separated by ", "; or empty.
  std::string remedy = {};
  double remedy_seconds = 0;  ///< added to a step with these settings

  bool sparse_is_faster() const { return sparse_seconds < dense_seconds; }
  /// Returns whether the other form may be faster, as the run may select more or fewer entries.
  bool is_uncertain() const {
    return sparse_range.holds(dense_seconds) || (first_steps > 0 && first_range.holds(dense_seconds));
  }
  /// Returns whether exchanges with the remedy are faster than dense ones.
  bool remedy_beats_dense() const { return !remedy.empty() && remedy_seconds < dense_seconds; }
};

}  // namespace dragonn::trainer
