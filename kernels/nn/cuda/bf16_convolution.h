// SPDX-License-Identifier: MIT
/// Convolution by cuDNN on bf16 tensors.
#pragma once

#include <memory>

#include "kernels/nn/cuda/convolution_choice.h"

namespace dragonn::kernels::cuda {

/// Makes a plan. cuDNN takes tensors of one type: the factors are rounded to bf16 on the way in, and results, summed in
/// float32, are rounded on the way out; so are the gradients of inputs and weights. Weights themselves, and sums over
/// steps, stay float32. Scratch: 2 bytes per element of input, output and weights, besides the workspace; 6 bytes are
/// moved per element that is converted.
std::unique_ptr<WeightedPlan> make_bf16_convolution(const Device& device, const ConvolutionSpec& spec,
                                                    const ConvolutionChoices& choices);

}  // namespace dragonn::kernels::cuda
