// SPDX-License-Identifier: MIT
/// Convolution on the CPU as products of strips with the weights. For .cpp files of this folder only.
#pragma once

#include <memory>

#include "kernels/nn/convolution.h"
#include "kernels/nn/plan.h"

namespace dragonn::kernels {

/// Makes a plan for kernels of many rows and few channels, where oneDNN's blocked kernels are slow. Both scratch
/// memories hold a copy or two of the weights of a part (kernels/nn/strips.h) and 1 MiB of strips, or one row's if that
/// is more.
std::unique_ptr<WeightedPlan> make_strip_convolution(const ConvolutionSpec& spec);

}  // namespace dragonn::kernels
