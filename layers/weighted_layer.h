// SPDX-License-Identifier: MIT
/// What linear and convolution layers share: their parameters and the plan that runs a kernel with weights.
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
  double initial_bound = 0;  ///< if positive: weights start uniform in +-bound
};
std::vector<ParameterSpec> weighted_parameters(const WeightedParameters& parameters);

/// Its backward pass reads the input.
std::unique_ptr<LayerPlan> weighted_layer_plan(std::unique_ptr<kernels::WeightedPlan> plan);

}  // namespace dragonn::layers
