// SPDX-License-Identifier: MIT
/// Maximum and average pooling of NHWC images.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device.h"
#include "kernels/nn/plan.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

enum class PoolingKind {
  kMaximum,  ///< the gradient goes to one of the largest inputs of a window
  kAverage,  ///< mean over the inputs in the window: padding does not count
};

/// The shape. Input [batch, height, width, channels], output [batch, vertical.outputs(height),
/// horizontal.outputs(width), channels].
struct PoolingSpec {
  PoolingKind kind = PoolingKind::kMaximum;
  std::int64_t batch = 1, height = 1, width = 1, channels = 1;
  Window vertical, horizontal;
  bool training = true;  ///< backward will be called
};

class PoolingPlan {
 public:
  virtual ~PoolingPlan() = default;
  virtual PlanMemory memory() const = 0;
  virtual void forward(TypedView<const float> input, TypedView<float> output, View<float> saved,
                       View<float> scratch) = 0;
  /// Runs backward after forward of a training plan. Needs neither input nor output. Overwrites `input_gradient`.
  virtual void backward(TypedView<const float> output_gradient, TypedView<float> input_gradient,
                        View<const float> saved, View<float> scratch) = 0;
};

/// Makes a plan. @throws Error if the device's library refuses, DeviceError if there is no row for the device.
extern PlanFactory<PoolingPlan, PoolingSpec> make_pooling_plan;

}  // namespace dragonn::kernels
