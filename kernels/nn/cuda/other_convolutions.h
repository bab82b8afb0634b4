// SPDX-License-Identifier: MIT
/// Plans of convolutions that are not cuDNN's with float32 tensors.
#pragma once

#include <memory>

#include "kernels/device_math.h"
#include "kernels/nn/convolution.h"
#include "kernels/nn/cuda/convolution_choice.h"

namespace dragonn::kernels::cuda {

/// Makes a plan. cuDNN takes tensors of one type: the factors are rounded to bf16 on the way in, and results, summed in
/// float32, are rounded on the way out; so are the gradients of inputs and weights. Weights themselves, and sums over
/// steps, stay float32. Scratch: 2 bytes per element of input, output and weights, besides the workspace; 6 bytes are
/// moved per element that is converted.
std::unique_ptr<WeightedPlan> make_bf16_convolution(const Device& device, const ConvolutionSpec& spec,
                                                    const ConvolutionChoices& choices);

/// Makes a plan for any window, any number of groups and any math mode, with HWIO weights as they are. It copies every
/// pixel for every window that sees it, in pieces of images of at most 1 GiB.
std::unique_ptr<WeightedPlan> make_patch_convolution(const Device& device, const ConvolutionSpec& spec,
                                                     DeviceMath math);

}  // namespace dragonn::kernels::cuda
