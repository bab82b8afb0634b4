// SPDX-License-Identifier: MIT
/// Operations on the channels of NHWC images: runs of channels copied from image to image, and channels scaled.
#pragma once

#include <cstddef>

#include "core/view.h"
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
/// @throws ShapeError if sizes do not fit; DeviceError if there is no row for the device.
extern Operation<void(const ChannelCopy& shape, TypedView<const float> source, TypedView<float> target)> copy_channels;

/// The shape of a scaling. Images [batch, pixels, channels], factors [batch, channels].
struct ChannelScale {
  std::size_t batch = 1, pixels = 1, channels = 1;
};

/// Scales channels: output = input * factor of its sample and channel. `output` may be `input`.
/// @throws ShapeError if sizes do not fit; DeviceError if there is no row for the device.
extern Operation<void(const ChannelScale& shape, TypedView<const float> input, TypedView<const float> factors,
                      TypedView<float> output)>
    scale_channels;
/// Computes the gradient of the factors: the sum over a sample's pixels of input * output gradient, in the order of the
/// pixels. That of the input is `scale_channels` of the output's gradient. Overwrites `factor_gradients`. Errors as
/// `scale_channels`.
extern Operation<void(const ChannelScale& shape, TypedView<const float> input, TypedView<const float> output_gradient,
                      TypedView<float> factor_gradients)>
    channel_products;

}  // namespace dragonn::kernels
