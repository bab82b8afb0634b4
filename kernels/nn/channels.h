// SPDX-License-Identifier: MIT
/// Operations on the channels of NHWC images: runs of channels copied from image to image, and channels scaled.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/view.h"
#include "kernels/nn/plan.h"
#include "kernels/operation.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

/// The shape of a copy. Source [pixels, source_channels], target [pixels, target_channels]: channel source_first + c of
/// the source becomes channel target_first + c of the target, for c below `channels`.
struct ChannelCopy {
  std::size_t pixels = 1;
  std::size_t channels = 1;
  std::size_t source_channels = 1, source_first = 0;
  std::size_t target_channels = 1, target_first = 0;
};

/// Copies a run of channels of every pixel; the target's other channels keep their values. The arrays must not overlap.
/// @throws ShapeError if sizes do not fit.
extern Operation<void(const ChannelCopy& shape, TypedView<const float> source, TypedView<float> target)> copy_channels;

/// The shape of a scaling. Images [batch, pixels, channels], factors [batch, channels].
struct ChannelScale {
  std::size_t batch = 1, pixels = 1, channels = 1;
};

/// Scales channels: output = input * factor of its sample and channel. `output` may be `input`.
/// @throws ShapeError if sizes do not fit.
extern Operation<void(const ChannelScale& shape, TypedView<const float> input, TypedView<const float> factors,
                      TypedView<float> output)>
    scale_channels;
/// Computes the gradient of the factors: the sum over a sample's pixels of input * output gradient, in the order of the
/// pixels. That of the input is `scale_channels` of the output's gradient. Overwrites `factor_gradients`. Errors as
/// `scale_channels`.
extern Operation<void(const ChannelScale& shape, TypedView<const float> input, TypedView<const float> output_gradient,
                      TypedView<float> factor_gradients)>
    channel_products;

/// The shape. Input and output [batch, height, width, channels]; output = input / (k + alpha / size * sum of the
/// squares of the `size` channels around it)^beta, with channels outside of the image as zeros. Source: Krizhevsky et
/// al., NIPS 2012, section 3.3; alpha is divided by the size as PyTorch and oneDNN do, so the paper's 1e-4 is 5e-4
/// here.
struct LocalResponseSpec {
  std::int64_t batch = 1, height = 1, width = 1, channels = 1;
  std::int64_t size = 5;  ///< odd
  float alpha = 5e-4f;
  float beta = 0.75f;
  float k = 2;
  bool training = true;  ///< backward will be called
};

/// Makes a plan.
extern PlanFactory<LocalResponseSpec> make_local_response_plan;

}  // namespace dragonn::kernels
