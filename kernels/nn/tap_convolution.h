// SPDX-License-Identifier: MIT
/// Convolution on the CPU as one matrix product per tap. For .cpp files of this folder only.
#pragma once

#include <memory>

#include "kernels/nn/convolution.h"
#include "kernels/nn/plan.h"

namespace dragonn::kernels {

/// Makes a plan for images of many channels; for narrow ones, in large batches, what padding would add is not computed.
/// For an ungrouped convolution with strides of 1. Forward's scratch memory holds a copy of input and output,
/// backward's of all three.
std::unique_ptr<WeightedPlan> make_tap_convolution(const ConvolutionSpec& spec);

/// Returns whether this plan is faster than oneDNN's convolution.
bool taps_are_faster(const ConvolutionSpec& spec);

}  // namespace dragonn::kernels
