// SPDX-License-Identifier: MIT
/// Convolution as a matrix product with the patches that its windows see.
#pragma once

#include <memory>

#include "kernels/device_math.h"
#include "kernels/nn/convolution.h"

namespace dragonn::kernels::cuda {

/// Makes a plan for any window, any number of groups and any math mode, with HWIO weights as they are. It copies every
/// pixel for every window that sees it, in pieces of images of at most 1 GiB.
std::unique_ptr<WeightedPlan> make_patch_convolution(const Device& device, const ConvolutionSpec& spec,
                                                     DeviceMath math);

}  // namespace dragonn::kernels::cuda
