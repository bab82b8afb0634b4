// SPDX-License-Identifier: MIT
/// Convolution on the CPU by Winograd's minimal filtering. For .cpp files of this folder only.
#pragma once

#include <memory>

#include "kernels/nn/convolution.h"
#include "kernels/nn/plan.h"

namespace dragonn::kernels {

/// Makes a plan for 3 x 3 kernels with strides of 1, padding of at most 2 and multiples of 16 channels on both sides,
/// without groups: F(2 x 2, 3 x 3), with 16 multiplications where a direct convolution has 36. Results differ from
/// those of a direct convolution by rounding, about as much as two orders of summation differ. They do not depend on
/// the number of threads.
std::unique_ptr<WeightedPlan> make_winograd_convolution(const ConvolutionSpec& spec);

/// Returns whether such a plan exists and is faster than oneDNN's convolution.
bool winograd_is_faster(const ConvolutionSpec& spec);

}  // namespace dragonn::kernels
