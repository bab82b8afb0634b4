// SPDX-License-Identifier: MIT
/// Convolution of single pixels on the CPU as one matrix product. For .cpp files of this folder only.
#pragma once

#include <memory>

#include "kernels/nn/convolution.h"
#include "kernels/nn/plan.h"

namespace dragonn::kernels {

/// Makes a plan for an ungrouped convolution with a kernel of 1 x 1 and no padding. It multiplies plain weights. With
/// strides, scratch memory holds a copy of the pixels that are read; backward's one of their gradient, too.
std::unique_ptr<WeightedPlan> make_pointwise_convolution(const ConvolutionSpec& spec);

/// Returns whether this plan can do the convolution, and is faster than oneDNN's convolution.
bool pointwise_is_faster(const ConvolutionSpec& spec);

}  // namespace dragonn::kernels
