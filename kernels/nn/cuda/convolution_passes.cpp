// SPDX-License-Identifier: MIT
#include "kernels/nn/cuda/convolution_passes.h"

namespace dragonn::kernels::cuda {
namespace {
constexpr float kOne = 1, kZero = 0;  // of any type of tensor cuDNN takes these as floats
}

void ConvolutionPasses::forward(const void* input, const void* weights, void* output, void* workspace) const {
  check(cudnnConvolutionForward(context(device_).dnn(), &kOne, described_.input.get(), input, described_.filter.get(),
                                weights, described_.convolution.get(), choices_.forward.algorithm, workspace,
                                choices_.forward.bytes, &kZero, described_.output.get(), output),
        "cudnnConvolutionForward");
}

void ConvolutionPasses::backward_weights(const void* input, const void* output_gradient, void* weights_gradient,
                                         void* workspace) const {
  check(cudnnConvolutionBackwardFilter(context(device_).dnn(), &kOne, described_.input.get(), input,
                                       described_.output.get(), output_gradient, described_.convolution.get(),
                                       choices_.backward_weights.algorithm, workspace, choices_.backward_weights.bytes,
                                       &kZero, described_.filter.get(), weights_gradient),
        "cudnnConvolutionBackwardFilter");
}

void ConvolutionPasses::backward_data(const void* weights, const void* output_gradient, void* input_gradient,
                                      void* workspace) const {
  check(cudnnConvolutionBackwardData(context(device_).dnn(), &kOne, described_.filter.get(), weights,
                                     described_.output.get(), output_gradient, described_.convolution.get(),
                                     choices_.backward_data.algorithm, workspace, choices_.backward_data.bytes, &kZero,
                                     described_.input.get(), input_gradient),
        "cudnnConvolutionBackwardData");
}

}  // namespace dragonn::kernels::cuda
