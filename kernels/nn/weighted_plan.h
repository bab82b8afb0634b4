// SPDX-License-Identifier: MIT
/// WeightedPlan: an operation with weights and perhaps a bias (convolution, linear), for one shape on one device.
#pragma once

#include "core/view.h"
#include "kernels/nn/plan.h"

namespace dragonn::kernels {

/// The arguments of forward: views of one device. `saved` and `scratch` have at least the sizes of memory().
struct WeightedForward {
  View<const float> input;
  View<const float> weights;
  View<const float> bias;  ///< empty if there is none
  View<float> output;
  View<float> saved;
  View<float> scratch;
};

struct WeightedBackward {
  View<const float> input;
  View<const float> weights;
  View<const float> output_gradient;
  View<float> input_gradient;    ///< empty if the plan was made without
  View<float> weights_gradient;  ///< overwritten
  View<float> bias_gradient;     ///< overwritten; empty if there is no bias
  View<const float> saved;
  View<float> scratch;
};

/// An operation with weights, for one shape. Weights are plain in the caller's memory. If the device prefers another
/// layout, forward and backward each make their own copy once per call.
class WeightedPlan {
 public:
  virtual ~WeightedPlan() = default;
  virtual PlanMemory memory() const = 0;
  virtual void forward(const WeightedForward& arguments) = 0;
  /// Runs backward of a plan made for training, after forward with the same inputs and weights.
  virtual void backward(const WeightedBackward& arguments) = 0;
};

}  // namespace dragonn::kernels
