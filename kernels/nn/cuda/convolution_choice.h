// SPDX-License-Identifier: MIT
/// The passes of a convolution by cuDNN, and the choice of their algorithms.
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/cuda/runtime.h"
#include "kernels/nn/convolution.h"
#include "kernels/nn/cuda/convolution_choice.h"

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
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;

/// The descriptors of a convolution. Tensors are NHWC; the filter is KRSC, which goes with NHWC. All are float32, or
/// with DeviceMath::kBf16 bf16; sums are float32.
struct ConvolutionDescriptors {
  ConvolutionDescriptors(const ConvolutionSpec& spec, DeviceMath math);
  TensorDescriptor input, output;
  FilterDescriptor filter;
  ConvolutionDescriptor convolution;
};

/// An algorithm and the bytes of its workspace.
template <class Algorithm>
struct Choice {
  Algorithm algorithm{};
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

/// Runs the passes on the stream of the calling thread. Tensors are NHWC and filters KRSC, in the type of
/// ConvolutionDescriptors.
/// @throws DeviceError if cuDNN refuses.
class ConvolutionPasses {
 public:
  ConvolutionPasses(const Device& device, const ConvolutionSpec& spec, DeviceMath math,
                    const ConvolutionChoices& choices)
      : device_(device), described_(spec, math), choices_(choices) {}

  /// The algorithms, which give the size of each pass's workspace.
  const ConvolutionChoices& choices() const { return choices_; }

  void forward(const void* input, const void* weights, void* output, void* workspace) const;
  void backward_weights(const void* input, const void* output_gradient, void* weights_gradient, void* workspace) const;
  void backward_data(const void* weights, const void* output_gradient, void* input_gradient, void* workspace) const;

 private:
  Device device_;
  ConvolutionDescriptors described_;
  ConvolutionChoices choices_;
};

}  // namespace dragonn::kernels::cuda
