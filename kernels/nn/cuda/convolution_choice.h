// SPDX-License-Identifier: MIT
/// The passes of a convolution by cuDNN, and the choice of their algorithms.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/cuda/runtime.h"
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

/// Describes the passes that a plan of this shape has.
std::vector<PassDescription> describe(const ConvolutionSpec& spec, const ConvolutionChoices& choices);

/// Runs the passes on the stream of the calling thread, each with its own math type. Tensors are NHWC and filters KRSC,
/// in the type of ConvolutionTensors.
/// @throws DeviceError if cuDNN refuses.
class ConvolutionPasses {
 public:
  ConvolutionPasses(const Device& device, const ConvolutionSpec& spec, DeviceMath math,
                    const ConvolutionChoices& choices)
      : device_(device),
        tensors_(spec, math),
        choices_(choices),
        forward_(spec, choices.forward.math),
        backward_weights_(spec, choices.backward_weights.math),
        backward_data_(spec, choices.backward_data.math) {}

  /// The algorithms, which give the size of each pass's workspace.
  const ConvolutionChoices& choices() const { return choices_; }

  void forward(const void* input, const void* weights, void* output, void* workspace) const;
  void backward_weights(const void* input, const void* output_gradient, void* weights_gradient, void* workspace) const;
  void backward_data(const void* weights, const void* output_gradient, void* input_gradient, void* workspace) const;

 private:
  Device device_;
  ConvolutionTensors tensors_;
  ConvolutionChoices choices_;
  ConvolutionWindows forward_, backward_weights_, backward_data_;
};

}  // namespace dragonn::kernels::cuda
