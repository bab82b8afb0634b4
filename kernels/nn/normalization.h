// SPDX-License-Identifier: MIT
/// Batch normalization of channels-last data, with an optional residual and ReLU in the same pass; and layer
/// normalization: every row to mean 0 and variance 1, then scaled and shifted by column.
#pragma once

#include <cstddef>

#include "kernels/nn/plan.h"

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
  bool training = true;                      ///< normalizes by the batch, and backward will be called
  ElementType type = ElementType::kFloat32;  ///< of the data; parameters and statistics are float32
};

/// Makes the plan of batch normalization. Source: Ioffe and Szegedy, arXiv:1502.03167. Training normalizes by the
/// batch's mean and (biased) variance and updates the running statistics, evaluation normalizes by these. Moments are
/// accumulated per piece of rows and combined in float64 in a fixed order: results do not depend on the number of
/// threads.
///
/// Inputs are the data and perhaps a residual. Parameters are scale and shift, statistics the running mean and
/// (unbiased) variance, all [channels]. Backward takes one or two output gradients, of which the gradient is the sum,
/// and reads the output only with both residual and ReLU. The residual's gradient may be output_gradients[0]; the
/// input's may be an output gradient that is not the residual's gradient.
extern PlanFactory<BatchNormSpec> make_batch_norm_plan;

/// The shape. Input and output [rows, columns], scale and shift [columns].
struct LayerNormSpec {
  std::int64_t rows = 1, columns = 1;
  float epsilon = 1e-5f;
  bool training = true;        ///< backward will be called
  bool input_gradient = true;  ///< backward computes the input's gradient
};

/// Makes the plan of layer normalization. Parameters are scale and shift. The variance is the biased one. Source: Ba et
/// al., arXiv:1607.06450, equations 3 and 4.
extern PlanFactory<LayerNormSpec> make_layer_norm_plan;

}  // namespace dragonn::kernels
