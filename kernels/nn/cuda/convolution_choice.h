// SPDX-License-Identifier: MIT
/// The passes of a convolution on a GPU, and the choice of their algorithms.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "kernels/cuda/runtime.h"
#include "kernels/nn/convolution.h"

namespace dragonn::kernels::cuda {

/// The most memory that a pass may ask for.
inline constexpr std::size_t kMaxWorkspaceBytes = std::size_t{1} << 30;

/// The operands of forward.
struct ForwardOperands {
  const void *input, *weights;
  const float* bias;  ///< null if there is none, or if the passes do not add it
  void* output;
};

/// The bytes of the workspace of every pass; 0 for passes that a plan does not have.
struct PassBytes {
  std::size_t forward = 0, backward_weights = 0, backward_data = 0;
};

/// The passes of a convolution, which run on the stream of the calling thread. Tensors are NHWC and filters KRSC. All
/// are of the shape's type.
class ConvolutionPasses {
 public:
  virtual ~ConvolutionPasses() = default;
  virtual PassBytes workspace_bytes() const = 0;
  /// Returns whether forward adds the bias.
  virtual bool adds_bias() const = 0;
  /// Describes the passes that a plan of this shape has.
  virtual std::vector<PassDescription> describe() const = 0;

  // @throws DeviceError if cuDNN refuses.
  virtual void forward(const ForwardOperands& of, void* workspace) const = 0;
  virtual void backward_weights(const void* input, const void* output_gradient, void* weights_gradient,
                                void* workspace) const = 0;
  virtual void backward_data(const void* weights, const void* output_gradient, void* input_gradient,
                             void* workspace) const = 0;
};

/// Makes the passes by the calls of cuDNN that are older than its graphs, each with its own math type. They do not add
/// the bias. Every pass takes the first of cuDNN's candidates, in the order of its heuristics, that gives the same bits
/// every time, multiplies in the asked precision and needs no more than 1 GiB of workspace; the result is null if a
/// pass has no such candidate. Candidates are not timed: a run's bits would then depend on timing. A shape is looked up
/// once per thread.
std::shared_ptr<const ConvolutionPasses> make_chosen_passes(const Device& device, const ConvolutionSpec& spec);

/// Makes the passes of a convolution of bf16 without groups as graphs of cuDNN. They reach kernels that the older calls
/// do not, and the forward pass adds the bias before it rounds. Every pass takes the first engine,
/// in the order of cuDNN's heuristics, that gives the same bits every time, sums in float32 and needs no more than 1
/// GiB of workspace. A shape is looked up once per thread, since cuDNN compiles some kernels when they are asked for.
/// @param obstacle is set if the result is null: why cuDNN has no such graph for the shape and the GPU.
std::shared_ptr<const ConvolutionPasses> make_convolution_graphs(const Device& device, const ConvolutionSpec& spec,
                                                                 std::string& obstacle);

/// Makes a plan for any window, any number of groups and any math mode, with HWIO weights. It copies every pixel for
/// every window that sees it, in pieces of images of at most 2^28 elements.
std::unique_ptr<Plan> make_patch_convolution(const Device& device, const ConvolutionSpec& spec);

}  // namespace dragonn::kernels::cuda
