// SPDX-License-Identifier: MIT
/// Batch normalization of channels-last data, with an optional residual and ReLU in the same pass.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/device.h"
#include "kernels/nn/plan.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

/// The shape and settings. Data is [rows, channels]: all axes but the channels are rows. On a GPU it begins at
/// multiples of 16 bytes.
struct BatchNormSpec {
  std::size_t rows = 1;
  std::size_t channels = 1;
  bool relu = false;                         ///< output = max(0, .) at the end
  bool residual = false;                     ///< a second input is added after normalization, before the ReLU
  float epsilon = 1e-5f;                     ///< added to the variance
  float momentum = 0.1f;                     ///< weight of a new batch in the running statistics
  ElementType type = ElementType::kFloat32;  ///< of the data; parameters and statistics are float32
};

struct BatchNormForward {
  TypedView<const float> input;
  TypedView<const float> residual;  ///< empty if there is none
  View<const float> scale, shift;   ///< [channels]
  View<float> running_mean;         ///< [channels]; updated by training, used by evaluation
  View<float> running_variance;     ///< [channels]; of the unbiased variance, updated and used as the mean
  TypedView<float> output;
  View<float> saved;
  View<float> scratch;
};

/// The arguments of backward. `residual_gradient` may be output_gradients[0]; `input_gradient` may be an output
/// gradient that is not `residual_gradient`.
struct BatchNormBackward {
  TypedView<const float> input;
  TypedView<const float> output;  ///< read only with both residual and ReLU
  View<const float> scale, shift;
  std::span<const TypedView<const float>> output_gradients;  ///< one or two: the gradient is their sum
  TypedView<float> input_gradient;
  TypedView<float> residual_gradient;          ///< empty if not wanted
  View<float> scale_gradient, shift_gradient;  ///< overwritten
  View<const float> saved;
  View<float> scratch;
};

/// Batch normalization for one shape. Source: Ioffe and Szegedy, arXiv:1502.03167. Moments are accumulated per piece of
/// rows and combined in float64 in a fixed order: results do not depend on the number of threads.
class BatchNormPlan {
 public:
  virtual ~BatchNormPlan() = default;
  virtual PlanMemory memory() const = 0;
  /// Normalizes by the batch's mean and (biased) variance.
  virtual void forward_train(const BatchNormForward& arguments) = 0;
  /// Normalizes by the running statistics.
  virtual void forward_evaluate(const BatchNormForward& arguments) = 0;
  /// Runs backward after forward_train.
  virtual void backward(const BatchNormBackward& arguments) = 0;
};

/// Makes a plan. @throws DeviceError if there is no row for the device.
extern PlanFactory<BatchNormPlan, BatchNormSpec> make_batch_norm_plan;

}  // namespace dragonn::kernels
