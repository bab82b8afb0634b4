// SPDX-License-Identifier: MIT
/// The parameters of linear and convolution layers, and the plan that runs a kernel with weights.
#pragma once

#include <memory>
#include <vector>

#include "kernels/nn/weighted_plan.h"
#include "layers/layers.h"

namespace dragonn::layers {

/// The parameters of an operation with weights.
struct WeightedParameters {
  Shape weight;
  std::int64_t outputs = 1;
  std::int64_t fan_in = 1;
  std::int64_t fan_out = 1;
  bool bias = true;
  WeightInit weight_init = WeightInit::kFanInUniform;
  BiasInit bias_init = BiasInit::kZero;
  double initial_bound = 0;  ///< if positive: first weights are uniform in +-bound
};
std::vector<ParameterSpec> weighted_parameters(const WeightedParameters& parameters);

/// Makes a plan whose backward pass reads the input.
std::unique_ptr<LayerPlan> weighted_layer_plan(std::unique_ptr<kernels::WeightedPlan> plan);

}  // namespace dragonn::layers
