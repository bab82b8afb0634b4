// SPDX-License-Identifier: MIT
/// What cuDNN is told of a convolution, and which of its algorithms run the three passes.
#pragma once

#include <cstddef>
#include <optional>

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
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;

/// Tensors are NHWC; the filter is KRSC, which is what NHWC wants. All are float32, or with DeviceMath::kBf16 bf16;
/// sums are float32.
struct ConvolutionDescriptors {
  ConvolutionDescriptors(const ConvolutionSpec& spec, DeviceMath math);
  TensorDescriptor input, output;
  FilterDescriptor filter;
  ConvolutionDescriptor convolution;
};

/// An algorithm and the bytes that it works in.
template <class Algorithm>
struct Choice {
  Algorithm algorithm{};
  std::size_t bytes = 0;
};

/// Those of passes that the plan does not have are empty.
struct ConvolutionChoices {
  Choice<cudnnConvolutionFwdAlgo_t> forward;
  Choice<cudnnConvolutionBwdFilterAlgo_t> backward_weights;
  Choice<cudnnConvolutionBwdDataAlgo_t> backward_data;
};

/// For every pass the first of cuDNN's candidates, which its heuristics rank, that gives the same bits every time,
/// multiplies as asked and is content with 1 GiB of workspace; none if a pass has no such. Ranked, not timed: a choice
/// that depends on timing would let the bits of a run depend on it. Asked once per shape and thread.
std::optional<ConvolutionChoices> choose_algorithms(Context& here, const ConvolutionSpec& spec, DeviceMath math);

}  // namespace dragonn::kernels::cuda
