// SPDX-License-Identifier: MIT
/// Scaled dot-product attention over several heads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/device.h"
#include "core/view.h"
#include "kernels/nn/plan.h"

namespace dragonn::kernels {

/// The shape. Input [batch, steps, 3 * width]: queries, keys and values, each of `heads` heads, one after the other;
/// output [batch, steps, width]. All float32.
struct AttentionSpec {
  std::int64_t batch = 1, steps = 1, width = 1;
  std::int64_t heads = 1;  ///< divides width
  bool causal = false;     ///< a step sees only itself and those before
  bool training = true;    ///< backward will be called
};

struct AttentionForward {
  View<const float> input;
  std::span<const std::int32_t> lengths;  ///< [batch], valid steps; empty: all are
  View<float> output;
  View<float> saved;
  View<float> scratch;
};

struct AttentionBackward {
  View<const float> input;
  std::span<const std::int32_t> lengths;
  View<const float> output_gradient;
  View<float> input_gradient;  ///< overwritten
  View<const float> saved;
  View<float> scratch;
};

/// Attention for one shape. Steps behind a sample's length are not seen, and give zeros. Keeps the attention weights,
/// [batch, heads, steps, steps], for backward. Source: Vaswani et al., arXiv:1706.03762, section 3.2.
using AttentionPlan = Plan<AttentionForward, AttentionBackward>;

/// Makes a plan. @throws Error if the device's library refuses, DeviceError if there is no row for the device.
extern PlanFactory<AttentionPlan, AttentionSpec> make_attention_plan;

}  // namespace dragonn::kernels
