// SPDX-License-Identifier: MIT
/// FusedAttention: attention in one kernel per pass, by cuDNN, which keeps no attention weights in memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/device.h"
#include "kernels/nn/attention.h"

namespace dragonn::kernels::cuda {

/// The matrices of a pass, of bf16 but for the statistics: input and its gradient [batch, steps, 3 * width], output and
/// its gradient [batch, steps, width], and the logarithm of each row's sum of exponentials, [batch, heads, steps]
/// float32, which forward of a plan for training writes and backward reads.
struct FusedForward {
  const void* input;
  void* output;
  float* statistics;  ///< null in an evaluation
  void* workspace;    ///< of forward_bytes()
};
struct FusedBackward {
  const void* input;
  const void* output;
  const void* output_gradient;
  const float* statistics;
  void* input_gradient;
  void* workspace;  ///< of backward_bytes()
};

/// Attention over steps that are all valid. Both passes give the same bits at every call.
class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  virtual std::size_t forward_bytes() const = 0;
  virtual std::size_t backward_bytes() const = 0;
  /// Starts a pass on the stream of the calling thread. Returns why cuDNN refused to, or nothing.
  virtual std::string forward(const FusedForward& arguments) = 0;
  virtual std::string backward(const FusedBackward& arguments) = 0;
};

/// Makes fused attention for a shape in bf16, with backward if it is for training. If cuDNN has none for the shape and
/// the GPU, or this build has none of it, the result is null and `obstacle` says why.
std::unique_ptr<FusedAttention> make_fused_attention(const Device& device, const AttentionSpec& spec,
                                                     std::string& obstacle);

}  // namespace dragonn::kernels::cuda
