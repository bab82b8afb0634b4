// SPDX-License-Identifier: MIT
/// Convolution as a matrix product with the patches that its windows see.
#pragma once

#include <memory>

#include "kernels/device_math.h"
#include "kernels/nn/convolution.h"

namespace dragonn::kernels::cuda {

/// Takes any window, any number of groups and any math mode, and HWIO weights as they are. Costs a copy of every pixel
/// for every window that sees it, in pieces of images of no more than 1 GiB.
std::unique_ptr<WeightedPlan> make_patch_convolution(const Device& device, const ConvolutionSpec& spec,
                                                     DeviceMath math);

}  // namespace dragonn::kernels::cuda
