// SPDX-License-Identifier: MIT
/// FusedRecurrent: all steps of a recurrent layer in one call per pass, by cuDNN.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/device.h"
#include "kernels/nn/recurrent.h"

namespace dragonn::kernels::cuda {

/// A recurrent layer from the first step to the last, over steps that are all valid. Weights are copied into cuDNN's
/// order once per pass, and gradients back. Hidden states lie where the steps would leave them (saved_before_hidden).
class FusedRecurrent {
 public:
  virtual ~FusedRecurrent() = default;
  virtual std::size_t saved_floats() const = 0;
  virtual std::size_t forward_bytes() const = 0;  ///< of scratch memory
  virtual std::size_t backward_bytes() const = 0;
  /// Starts forward on the stream of the calling thread. Returns why cuDNN refused to, or nothing.
  virtual std::string forward(const RecurrentForward& arguments) = 0;
  /// Starts backward on the stream of the calling thread. It is the last reader of what forward saved, which is lost.
  /// @throws DeviceError if cuDNN refuses.
  virtual void backward(const RecurrentBackward& arguments) = 0;
};

/// Makes a fused recurrent layer for a shape, with backward if it is for training. If cuDNN has none, the result is
/// null and `obstacle` says why; it stays empty in a build without cuDNN.
std::unique_ptr<FusedRecurrent> make_fused_recurrent(const Device& device, const RecurrentSpec& spec,
                                                     std::string& obstacle);

}  // namespace dragonn::kernels::cuda
