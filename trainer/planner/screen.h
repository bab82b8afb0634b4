// SPDX-License-Identifier: MIT
/// Screen: the time of a step by the formulas of the cost model, to choose which candidates are worth a trial.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "layers/network.h"
#include "trainer/config/config.h"
#include "trainer/cost_model/tensor_selection.h"

namespace dragonn::trainer {

/// Predicts steps of one model on one network. Selections are timed briefly on this machine, once for each method,
/// memory and density, unless computing takes no time (network.compute = "zero").
///
/// The formulas know one latency and one bandwidth. Of unlike links the slowest decides; the workers of a node share
/// its link where each sends to other nodes at the same time; of two levels the gradients inside a node come first, and
/// nothing overlaps. Trials correct what that leaves out.
class Screen {
 public:
  /// @param network without memory; outlives this.
  explicit Screen(const layers::Network& network) : network_(network), layers_(network.summary()) {}

  /// Returns the predicted seconds of a step of a config with a network: network.step_ms, and what its exchange adds.
  double seconds(const RunSpec& config);

 private:
  using CurveKey = std::tuple<std::string, std::string, double, std::int64_t>;

  const CostCurve& curve_of(const SelectionQuestion& question);

  const layers::Network& network_;
  std::vector<layers::LayerSummary> layers_;
  std::map<CurveKey, CostCurve> curves_;
};

}  // namespace dragonn::trainer
