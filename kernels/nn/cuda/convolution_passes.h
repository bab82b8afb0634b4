// SPDX-License-Identifier: MIT
/// Convolution passes: the three passes of a convolution by cuDNN.
#pragma once

#include "kernels/nn/cuda/convolution_choice.h"

namespace dragonn::kernels::cuda {

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
