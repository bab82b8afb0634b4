// SPDX-License-Identifier: MIT
/// Bounds: what the time of a step depends on: computing, latencies, and the rates of which links.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace dragonn::trainer {

/// A part of the cluster, and the share of a step's time that is saved if it is twice as good.
struct Bound {
  std::string part;  ///< "computing", "latency", "the link out of node 2"
  double saved = 0;  ///< in [0, 1]; below 0.5 / parts nothing alone decides
};

/// Returns the time of a step with a config that differs in [network].
using StepSeconds = std::function<double(const RunSpec&)>;

/// Asks for the time of a step with computing, latencies and all rates twice as good, one after the other, and if rates
/// matter with each link alone that has a rate of its own. Returns the parts, those that save most first.
std::vector<Bound> find_bounds(const RunSpec& config, const StepSeconds& step_seconds);

}  // namespace dragonn::trainer
