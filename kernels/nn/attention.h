// SPDX-License-Identifier: MIT
/// Scaled dot-product attention over several heads.
#pragma once

#include <cstdint>

#include "kernels/nn/plan.h"

namespace dragonn::kernels {

/// The shape. Input [batch, steps, 3 * width]: queries, keys and values, each of `heads` heads, one after the other;
/// output [batch, steps, width].
struct AttentionSpec {
  std::int64_t batch = 1, steps = 1, width = 1;
  std::int64_t heads = 1;                    ///< divides width
  bool causal = false;                       ///< a step sees only itself and those before
  bool training = true;                      ///< backward will be called
  ElementType type = ElementType::kFloat32;  ///< of input and output, and of the weights that are saved
  DeviceMath math = DeviceMath::kFloat32;    ///< of products of float32; those of bf16 are exact
};

/// The algorithms of attention that a GPU's plan describes: by kernels that keep no attention weights, or by products
/// with weights in memory.
inline constexpr const char* kFusedAttention = "fused";
inline constexpr const char* kPlainAttention = "weights in memory";

/// Makes the plan of attention. Steps behind a sample's length are not seen, and give zeros. The CPU has a block of the
/// attention weights at a time, 64 x steps floats a thread, and computes them again in backward; a GPU keeps all of
/// them, [batch, heads, steps, steps], unless in bf16 cuDNN's fused attention does the passes whose steps are all
/// valid. Source: Vaswani et al., arXiv:1706.03762, section 3.2.
extern PlanFactory<AttentionSpec> make_attention_plan;

}  // namespace dragonn::kernels
