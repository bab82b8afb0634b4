// SPDX-License-Identifier: MIT
/// FusedRecurrent: all steps of a recurrent layer in one call per pass, by cuDNN.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/device.h"
#include "kernels/nn/recurrent.h"

namespace dragonn::kernels::cuda {

/// The arrays of forward, all on the GPU. The start is the state before the first step, [batch, hidden].
struct FusedRecurrentForward {
  const float* input;  ///< [steps, batch, inputs]
  RecurrentWeights<const float> weights;
  const float* start_hidden;
  const float* start_cell;  ///< null for a GRU, as last_cell
  float* hidden;            ///< [steps, batch, hidden], out
  float* last_hidden;       ///< out; null if nobody wants it, as last_cell
  float* last_cell;
  void* reserve;    ///< of reserve_bytes(), which backward reads
  void* workspace;  ///< of forward_bytes()
};
struct FusedRecurrentBackward {
  const float* input;
  RecurrentWeights<const float> weights;
  const float* start_hidden;
  const float* start_cell;
  const float* hidden;
  const float* output_gradient;
  float* input_gradient;              ///< null if the plan was made without
  RecurrentWeights<float> gradients;  ///< overwritten
  void* reserve;                      ///< as forward left it; its values are lost
  void* workspace;                    ///< of backward_bytes()
};

/// A recurrent layer from the first step to the last, over steps that are all valid. Weights are copied into cuDNN's
/// order once per pass, and gradients back.
class FusedRecurrent {
 public:
  virtual ~FusedRecurrent() = default;
  virtual std::size_t reserve_bytes() const = 0;
  virtual std::size_t forward_bytes() const = 0;
  virtual std::size_t backward_bytes() const = 0;
  /// Starts forward on the stream of the calling thread. Returns why cuDNN refused to, or nothing.
  virtual std::string forward(const FusedRecurrentForward& arguments) = 0;
  /// Starts backward on the stream of the calling thread. @throws DeviceError if cuDNN refuses.
  virtual void backward(const FusedRecurrentBackward& arguments) = 0;
};

/// Makes a fused recurrent layer for a shape, with backward if it is for training. If cuDNN has none, the result is
/// null and `obstacle` says why; it stays empty in a build without cuDNN.
std::unique_ptr<FusedRecurrent> make_fused_recurrent(const Device& device, const RecurrentSpec& spec,
                                                     std::string& obstacle);

}  // namespace dragonn::kernels::cuda
