// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/error.h"
#include "kernels/nn/cpu_convolutions.h"
#include "kernels/nn/matrix_product.h"
#include "kernels/pieces.h"

namespace dragonn::kernels {
namespace {

using detail::Matrix;
using detail::multiply;
using detail::transpose;

/// Returns whether a convolution is a product of pixels with the weights.
bool is_pointwise(const ConvolutionSpec& spec) {
  const auto single = [](const Window& window) { return window.kernel == 1 && window.padding == 0; };
  return spec.groups == 1 && single(spec.vertical) && single(spec.horizontal);
}

class PointwiseConvolution final : public Plan {
 public:
  explicit PointwiseConvolution(const ConvolutionSpec& spec)
      : spec_(spec), height_(spec.output_height()), width_(spec.output_width()) {
    DRAGONN_CHECK(is_pointwise(spec), "a product of pixels for a kernel of {} x {}", spec.vertical.kernel,
                  spec.horizontal.kernel);
    if (height_ != spec.height || width_ != spec.width)
      copy_ = aligned_floats(static_cast<std::size_t>(rows() * spec.channels));
  }

  PlanMemory memory() const override {
    return {0, copy_, spec_.training ? copy_ + (spec_.input_gradient ? copy_ : 0) : 0};
  }

  void forward(const ForwardPass& pass) override {
    const Matrix pixels = pixels_read(pass.inputs[0].data(), pass.scratch.data());
    float* output = pass.output.data();
    if (spec_.bias) detail::fill_rows(bias_of(pass.parameters).data(), rows(), spec_.output_channels, output);
    multiply(pixels, weights_of(pass.parameters[0].data()), spec_.bias ? 1 : 0, output);
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    const Matrix gradient{pass.output_gradients[0].data(), rows(), spec_.output_channels};
    if (spec_.bias) detail::sum_columns(gradient, bias_of(pass.parameter_gradients).data());
    const Matrix pixels = pixels_read(pass.inputs[0].data(), pass.scratch.data());
    multiply(transpose(pixels), gradient, 0, pass.parameter_gradients[0].data());
    if (!spec_.input_gradient) return;
    float* input_gradient = pass.input_gradients[0].data();
    float* target = copy_ == 0 ? input_gradient : pass.scratch.data() + copy_;
    multiply(gradient, transpose(weights_of(pass.parameters[0].data())), 0, target);
    if (copy_ == 0) return;
    detail::fill_rows(nullptr, spec_.batch * spec_.height * spec_.width, spec_.channels, input_gradient);
    for_each_pixel([&](std::int64_t input, std::int64_t pixel) {
      std::copy_n(target + pixel, spec_.channels, input_gradient + input);
    });
  }

 private:
  std::int64_t rows() const { return spec_.batch * height_ * width_; }
  Matrix weights_of(const float* weights) const { return {weights, spec_.channels, spec_.output_channels}; }

  /// Returns the pixels that the convolution reads: all of the input, or a copy.
  Matrix pixels_read(const float* input, float* copy) const {
    if (copy_ == 0) return {input, rows(), spec_.channels};
    for_each_pixel(
        [&](std::int64_t from, std::int64_t pixel) { std::copy_n(input + from, spec_.channels, copy + pixel); });
    return {copy, rows(), spec_.channels};
  }

  /// Calls body with the offsets of every pixel that is read, in the input and in a copy.
  template <class Body>
  void for_each_pixel(const Body& body) const {
    const std::size_t min = rows_per_piece(static_cast<std::size_t>(spec_.channels));
    for_each_piece(static_cast<std::size_t>(rows()), min, [&](std::size_t, std::size_t begin, std::size_t end) {
      for (auto row = static_cast<std::int64_t>(begin); row < static_cast<std::int64_t>(end); ++row) {
        const std::int64_t x = row % width_, y = row / width_ % height_, image = row / (width_ * height_);
        const std::int64_t line = image * spec_.height + y * spec_.vertical.stride;
        body((line * spec_.width + x * spec_.horizontal.stride) * spec_.channels, row * spec_.channels);
      }
    });
  }

  ConvolutionSpec spec_;
  std::int64_t height_, width_;
  std::size_t copy_ = 0;  // floats of a copy of the pixels that are read; 0 if these are all
};

}  // namespace

std::unique_ptr<Plan> make_pointwise_convolution(const ConvolutionSpec& spec) {
  return std::make_unique<PointwiseConvolution>(spec);
}

bool pointwise_is_faster(const ConvolutionSpec& spec) {
  // With few pixels, copying the weights to oneDNN's layout and back costs more than its better kernel saves. That
  // kernel is slower where strides leave pixels out.
  constexpr std::int64_t kFewestRows = 64, kFewRows = 1024, kFewRowsOfStrides = 2048, kFewestChannels = 128;
  if (!is_pointwise(spec) || std::min(spec.channels, spec.output_channels) < kFewestChannels) return false;
  const std::int64_t rows = spec.output_pixels();
  const bool strides = spec.vertical.stride > 1 || spec.horizontal.stride > 1;
  return rows >= kFewestRows && rows <= (strides ? kFewRowsOfStrides : kFewRows);
}

}  // namespace dragonn::kernels
