// SPDX-License-Identifier: MIT
/// Convolutions that cuDNN does not do: as products with patches.
#pragma once

#include <memory>

#include "kernels/device_math.h"
#include "kernels/nn/convolution.h"

namespace dragonn::kernels::cuda {

/// Makes a plan for any window, any number of groups and any math mode, with HWIO weights. It copies every pixel for
/// every window that sees it, in pieces of images of at most 2^28 elements.
std::unique_ptr<WeightedPlan> make_patch_convolution(const Device& device, const ConvolutionSpec& spec,
                                                     DeviceMath math);

}  // namespace dragonn::kernels::cuda
