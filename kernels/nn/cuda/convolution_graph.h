// SPDX-License-Identifier: MIT
/// Convolutions of bf16 as graphs of cuDNN.
#pragma once

#include <memory>
#include <string>

#include "core/device.h"
#include "kernels/nn/convolution.h"
#include "kernels/nn/cuda/convolution_choice.h"

namespace dragonn::kernels::cuda {

/// Makes the passes of a convolution of bf16 without groups as graphs of cuDNN. They reach kernels that the calls of
/// ConvolutionChoices do not, and the forward pass adds the bias before it rounds. Every pass takes the first engine,
/// in the order of cuDNN's heuristics, that gives the same bits every time, sums in float32 and needs no more than 1
/// GiB of workspace. A shape is looked up once per thread, since cuDNN compiles some kernels when they are asked for.
/// @param obstacle is set if the result is null: why cuDNN has no such graph for the shape and the GPU.
std::shared_ptr<const ConvolutionPasses> make_convolution_graphs(const Device& device, const ConvolutionSpec& spec,
                                                                 std::string& obstacle);

}  // namespace dragonn::kernels::cuda
