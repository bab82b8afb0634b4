// SPDX-License-Identifier: MIT
/// The passes of a convolution by cuDNN, and the choice of their algorithms.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/device.h"
#include "kernels/cuda/runtime.h"
#include "kernels/device_math.h"
#include "kernels/nn/convolution.h"

namespace dragonn::kernels::cuda {

/// Owns a cuDNN descriptor.
template <class T, cudnnStatus_t (*kCreate)(T*), cudnnStatus_t (*kDestroy)(T)>
class Descriptor {
 public:
  Descriptor() { check(kCreate(&value_), "create a cuDNN descriptor"); }
  ~Descriptor() { kDestroy(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  T get() const { return value_; }

 private:
  T value_ = nullptr;
};
using TensorDescriptor = Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescriptor = Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;

/// The descriptors of the tensors of a convolution. They are NHWC; the filter is KRSC, which goes with NHWC. All are
/// float32, or with DeviceMath::kBf16 bf16.
struct ConvolutionTensors {
  ConvolutionTensors(const ConvolutionSpec& spec, DeviceMath math);
  TensorDescriptor input, output;
  FilterDescriptor filter;
};

/// The descriptor of the windows and of the math type of one pass. Sums are float32.
class ConvolutionWindows {
 public:
  ConvolutionWindows(const ConvolutionSpec& spec, cudnnMathType_t math);
  void set_math(cudnnMathType_t math) const;
  cudnnConvolutionDescriptor_t get() const { return descriptor_.get(); }

 private:
  Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>
      descriptor_;
};

/// The most memory that a pass may ask for.
inline constexpr std::size_t kMaxWorkspaceBytes = std::size_t{1} << 30;

/// An algorithm, the math type that belongs to it, and the bytes of the workspace that both need together.
template <class Algorithm>
struct Choice {
  Algorithm algorithm{};
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  std::size_t bytes = 0;
};

/// The algorithms of the passes; those of passes that the plan does not have are empty.
struct ConvolutionChoices {
  Choice<cudnnConvolutionFwdAlgo_t> forward;
  Choice<cudnnConvolutionBwdFilterAlgo_t> backward_weights;
  Choice<cudnnConvolutionBwdDataAlgo_t> backward_data;
};

/// Chooses for every pass the first of cuDNN's candidates, in the order of its heuristics, that gives the same bits
/// every time, multiplies in the asked precision and needs no more than 1 GiB of workspace. Returns nothing if a pass
/// has no such candidate. Candidates are not timed: a run's bits would then depend on timing. A shape is looked up once
/// per thread.
std::optional<ConvolutionChoices> choose_algorithms(Context& here, const ConvolutionSpec& spec, DeviceMath math);

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

/// The passes of a convolution, which run on the stream of the calling thread. Tensors are NHWC and filters KRSC, in
/// the type of ConvolutionTensors.
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
/// the bias.
std::shared_ptr<const ConvolutionPasses> make_chosen_passes(const Device& device, const ConvolutionSpec& spec,
                                                            DeviceMath math, const ConvolutionChoices& choices);

/// Makes the passes of a convolution of bf16 without groups as graphs of cuDNN. They reach kernels that the calls of
/// ConvolutionChoices do not, and the forward pass adds the bias before it rounds. Every pass takes the first engine,
/// in the order of cuDNN's heuristics, that gives the same bits every time, sums in float32 and needs no more than 1
/// GiB of workspace. A shape is looked up once per thread, since cuDNN compiles some kernels when they are asked for.
/// @param obstacle is set if the result is null: why cuDNN has no such graph for the shape and the GPU.
std::shared_ptr<const ConvolutionPasses> make_convolution_graphs(const Device& device, const ConvolutionSpec& spec,
                                                                 std::string& obstacle);

/// Makes a plan for any window, any number of groups and any math mode, with HWIO weights. It copies every pixel for
/// every window that sees it, in pieces of images of at most 2^28 elements.
std::unique_ptr<Plan> make_patch_convolution(const Device& device, const ConvolutionSpec& spec, DeviceMath math);

}  // namespace dragonn::kernels::cuda
