// SPDX-License-Identifier: MIT
/// Convolution in float64, straight from its definition, for comparisons.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/nn/convolution.h"

namespace dragonn::kernels::test {

struct ConvolutionReference {
  std::vector<double> output, input_gradient, weights_gradient, bias_gradient;
};

/// Forward and backward of `spec` with the given inputs, HWIO weights, bias and output gradient.
inline ConvolutionReference reference_convolution(const ConvolutionSpec& spec, const std::vector<float>& input,
                                                  const std::vector<float>& weights, const std::vector<float>& bias,
                                                  const std::vector<float>& output_gradient) {
  const std::int64_t height = spec.output_height(), width = spec.output_width();
  const std::int64_t group_inputs = spec.channels / spec.groups, group_outputs = spec.output_channels / spec.groups;
  ConvolutionReference result{std::vector<double>(output_gradient.size()), std::vector<double>(input.size()),
                              std::vector<double>(weights.size()), std::vector<double>(bias.size())};
  std::size_t out = 0;
  for (std::int64_t n = 0; n < spec.batch; ++n)
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x)
        for (std::int64_t o = 0; o < spec.output_channels; ++o, ++out) {
          const double gradient = output_gradient[out];
          if (!bias.empty()) {
            result.output[out] = bias[static_cast<std::size_t>(o)];
            result.bias_gradient[static_cast<std::size_t>(o)] += gradient;
          }
          for (std::int64_t ky = 0; ky < spec.vertical.kernel; ++ky)
            for (std::int64_t kx = 0; kx < spec.horizontal.kernel; ++kx)
              for (std::int64_t i = 0; i < group_inputs; ++i) {
                const std::int64_t iy = y * spec.vertical.stride - spec.vertical.padding + ky;
                const std::int64_t ix = x * spec.horizontal.stride - spec.horizontal.padding + kx;
                if (iy < 0 || iy >= spec.height || ix < 0 || ix >= spec.width) continue;
                const std::int64_t channel = o / group_outputs * group_inputs + i;
                const auto from =
                    static_cast<std::size_t>(((n * spec.height + iy) * spec.width + ix) * spec.channels + channel);
                const auto weight = static_cast<std::size_t>(
                    ((ky * spec.horizontal.kernel + kx) * group_inputs + i) * spec.output_channels + o);
                result.output[out] += static_cast<double>(input[from]) * weights[weight];
                result.input_gradient[from] += gradient * weights[weight];
                result.weights_gradient[weight] += gradient * input[from];
              }
        }
  return result;
}

}  // namespace dragonn::kernels::test
