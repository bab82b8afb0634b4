// SPDX-License-Identifier: MIT
/// Convolutions on the CPU by other ways than oneDNN's. For .cpp files of this folder only.
#pragma once

#include <memory>

#include "kernels/nn/convolution.h"
#include "kernels/nn/plan.h"

namespace dragonn::kernels {

/// Makes a plan for an ungrouped convolution with a kernel of 1 x 1 and no padding. It multiplies plain weights. With
/// strides, scratch memory holds a copy of the pixels that are read; backward's one of their gradient, too.
std::unique_ptr<Plan> make_pointwise_convolution(const ConvolutionSpec& spec);

/// Returns whether this plan can do the convolution, and is faster than oneDNN's convolution.
bool pointwise_is_faster(const ConvolutionSpec& spec);

/// Makes a plan for kernels of many rows and few channels, where oneDNN's blocked kernels are slow. Both scratch
/// memories hold a copy or two of the weights of a part (strip_convolution.cpp) and 1 MiB of strips, or one row's if
/// that is more.
std::unique_ptr<Plan> make_strip_convolution(const ConvolutionSpec& spec);

/// Makes a plan for images of many channels; for narrow ones, in large batches, what padding would add is not computed.
/// For an ungrouped convolution with strides of 1. Forward's scratch memory holds a copy of input and output,
/// backward's of all three.
std::unique_ptr<Plan> make_tap_convolution(const ConvolutionSpec& spec);

/// Returns whether this plan is faster than oneDNN's convolution.
bool taps_are_faster(const ConvolutionSpec& spec);

/// Makes a plan for 3 x 3 kernels with strides of 1, padding of at most 2 and multiples of 16 channels on both sides,
/// without groups: F(2 x 2, 3 x 3), with 16 multiplications where a direct convolution has 36. Results differ from
/// those of a direct convolution by rounding, about as much as two orders of summation differ. They do not depend on
/// the number of threads.
std::unique_ptr<Plan> make_winograd_convolution(const ConvolutionSpec& spec);

/// Returns whether such a plan exists and is faster than oneDNN's convolution.
bool winograd_is_faster(const ConvolutionSpec& spec);

}  // namespace dragonn::kernels
