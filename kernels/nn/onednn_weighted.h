// SPDX-License-Identifier: MIT
/// WeightedPlan of the CPU, made from oneDNN primitive descriptions. For .cpp files of this folder only.
#pragma once

#include <memory>
#include <optional>

#include "kernels/nn/onednn.h"
#include "kernels/nn/plan.h"
#include "kernels/nn/strips.h"

namespace dragonn::kernels::onednn {

/// The descriptions of the passes, made with user_scratchpad(), with weights in any layout, and activations plain. The
/// backward ones may be empty.
struct WeightedDescriptions {
  dnnl::primitive_desc_base forward;
  dnnl::primitive_desc_base backward_data;
  dnnl::primitive_desc_base backward_weights;
  dnnl::memory::desc plain_weights;  ///< as the caller keeps weights and their gradient
  /// The patches, if backward_weights is a matrix product with the patches of the input instead of the input. Its
  /// gradient is plain already.
  std::optional<Patches> patches = std::nullopt;
};

std::unique_ptr<WeightedPlan> make_weighted_plan(const WeightedDescriptions& descriptions);

}  // namespace dragonn::kernels::onednn
