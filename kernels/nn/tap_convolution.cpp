// SPDX-License-Identifier: MIT
#include "kernels/nn/tap_convolution.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "kernels/nn/matrix_product.h"
#include "kernels/pieces.h"

namespace dragonn::kernels {
namespace {

using detail::Matrix;
using detail::multiply;
using detail::transpose;

/// Neighbouring output pixels, and the equally many input pixels that a tap joins to them.
struct Run {
  std::int64_t tap = 0, input = 0, output = 0, pixels = 0;
};

/// Returns the runs of all taps, tap by tap. Pixels outside the image are in none.
std::vector<Run> find_runs(const ConvolutionSpec& spec) {
  std::vector<Run> runs;
  const std::int64_t height = spec.vertical.outputs(spec.height), width = spec.horizontal.outputs(spec.width);
  for (std::int64_t tap = 0; tap < spec.vertical.kernel * spec.horizontal.kernel; ++tap) {
    const std::int64_t down = tap / spec.horizontal.kernel - spec.vertical.padding;
    const std::int64_t right = tap % spec.horizontal.kernel - spec.horizontal.padding;
    const std::int64_t begin = std::max<std::int64_t>(0, -right), end = std::min(width, spec.width - right);
    for (std::int64_t y = std::max<std::int64_t>(0, -down); y < std::min(height, spec.height - down); ++y) {
      if (begin >= end) break;
      const Run run{tap, (y + down) * spec.width + begin + right, y * width + begin, end - begin};
      const bool follows = !runs.empty() && runs.back().tap == tap &&
                           runs.back().input + runs.back().pixels == run.input &&
                           runs.back().output + runs.back().pixels == run.output;
      if (follows)
        runs.back().pixels += run.pixels;
      else
        runs.push_back(run);
    }
  }
  return runs;
}

/// The copies of a tensor that products work on: [pixels, batch, channels], so that the pixels of a run, of all images,
/// are the rows of a matrix.
class ByPixel {
 public:
  ByPixel(std::int64_t batch, std::int64_t pixels, std::int64_t channels)
      : batch_(batch), pixels_(pixels), channels_(channels) {}

  std::int64_t rows() const { return pixels_ * batch_; }
  std::int64_t channels() const { return channels_; }
  std::size_t floats() const { return aligned_floats(static_cast<std::size_t>(rows() * channels_)); }
  float* at(float* copy, std::int64_t pixel) const { return copy + pixel * batch_ * channels_; }
  Matrix run(const float* copy, std::int64_t pixel, std::int64_t pixels) const {
    return {copy + pixel * batch_ * channels_, pixels * batch_, channels_};
  }
  /// Copies from [batch, pixels, channels], and back.
  void gather(const float* images, float* copy) const {
    for_each_pixel([&](std::int64_t by_image, std::int64_t by_pixel) {
      std::copy_n(images + by_image, channels_, copy + by_pixel);
    });
  }
  void scatter(const float* copy, float* images) const {
    for_each_pixel([&](std::int64_t by_image, std::int64_t by_pixel) {
      std::copy_n(copy + by_pixel, channels_, images + by_image);
    });
  }

 private:
  template <class Body>
  void for_each_pixel(const Body& body) const {
    const std::size_t least = rows_per_piece(static_cast<std::size_t>(channels_));
    for_each_piece(static_cast<std::size_t>(rows()), least, [&](std::size_t, std::size_t begin, std::size_t end) {
      for (auto row = static_cast<std::int64_t>(begin); row < static_cast<std::int64_t>(end); ++row)
        body(row * channels_, (row % pixels_ * batch_ + row / pixels_) * channels_);
    });
  }

  std::int64_t batch_, pixels_, channels_;
};

class TapConvolution final : public WeightedPlan {
 public:
  explicit TapConvolution(const ConvolutionSpec& spec)
      : spec_(spec),
        runs_(find_runs(spec)),
        inputs_(spec.batch, spec.height * spec.width, spec.channels),
        outputs_(spec.batch, spec.vertical.outputs(spec.height) * spec.horizontal.outputs(spec.width),
                 spec.output_channels) {}

  PlanMemory memory() const override {
    const std::size_t both = inputs_.floats() + outputs_.floats();
    return {0, both, spec_.training ? both + (spec_.input_gradient ? inputs_.floats() : 0) : 0};
  }

  void forward(const WeightedForward& arguments) override {
    float* input = arguments.scratch.data();
    float* output = input + inputs_.floats();
    inputs_.gather(arguments.input.data(), input);
    detail::fill_rows(spec_.bias ? arguments.bias.data() : nullptr, outputs_.rows(), outputs_.channels(), output);
    for (const Run& run : runs_)
      multiply(inputs_.run(input, run.input, run.pixels), weights_of(arguments.weights.data(), run), 1,
               outputs_.at(output, run.output));
    outputs_.scatter(output, arguments.output.data());
  }

  void backward(const WeightedBackward& arguments) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    float* input = arguments.scratch.data();
    float* output_gradient = input + inputs_.floats();
    outputs_.gather(arguments.output_gradient.data(), output_gradient);
    if (spec_.bias)
      detail::sum_columns({output_gradient, outputs_.rows(), outputs_.channels()}, arguments.bias_gradient.data());
    inputs_.gather(arguments.input.data(), input);
    run_backward_weights(input, output_gradient, arguments.weights_gradient.data());
    if (!spec_.input_gradient) return;
    float* input_gradient = output_gradient + outputs_.floats();
    detail::fill_rows(nullptr, inputs_.rows(), inputs_.channels(), input_gradient);
    for (const Run& run : runs_)
      multiply(outputs_.run(output_gradient, run.output, run.pixels),
               transpose(weights_of(arguments.weights.data(), run)), 1, inputs_.at(input_gradient, run.input));
    inputs_.scatter(input_gradient, arguments.input_gradient.data());
  }

 private:
  Matrix weights_of(const float* weights, const Run& run) const {
    return {weights + run.tap * spec_.channels * spec_.output_channels, spec_.channels, spec_.output_channels};
  }

  void run_backward_weights(const float* input, const float* output_gradient, float* gradient) const {
    const std::int64_t floats = spec_.channels * spec_.output_channels;
    std::int64_t next = 0;  // the first tap that has nothing yet
    for (const Run& run : runs_) {
      for (; next < run.tap; ++next) std::fill_n(gradient + next * floats, floats, 0.0f);
      const bool first = next == run.tap;
      next = run.tap + 1;
      multiply(transpose(inputs_.run(input, run.input, run.pixels)),
               outputs_.run(output_gradient, run.output, run.pixels), first ? 0 : 1, gradient + run.tap * floats);
    }
    for (; next < spec_.vertical.kernel * spec_.horizontal.kernel; ++next)
      std::fill_n(gradient + next * floats, floats, 0.0f);
  }

  ConvolutionSpec spec_;
  std::vector<Run> runs_;
  ByPixel inputs_, outputs_;
};

}  // namespace

std::unique_ptr<WeightedPlan> make_tap_convolution(const ConvolutionSpec& spec) {
  return std::make_unique<TapConvolution>(spec);
}

bool taps_are_faster(const ConvolutionSpec& spec) {
  // Smaller products are slow. Padding must add much, or pixels be so few that copying the weights to oneDNN's layout
  // and back costs as much.
  constexpr std::int64_t kFewestRows = 32, kFewestChannels = 128, kFewPixels = 512;
  constexpr double kMostInside = 0.75, kMostInsideOfFew = 0.9;
  if (spec.groups != 1 || spec.vertical.stride != 1 || spec.horizontal.stride != 1) return false;
  if (std::min(spec.channels, spec.output_channels) < kFewestChannels) return false;
  const std::int64_t pixels = spec.vertical.outputs(spec.height) * spec.horizontal.outputs(spec.width);
  std::int64_t inside = 0, shortest = pixels;
  for (const Run& run : find_runs(spec)) {
    inside += run.pixels;
    shortest = std::min(shortest, run.pixels);
  }
  const double share =
      static_cast<double>(inside) / static_cast<double>(spec.vertical.kernel * spec.horizontal.kernel * pixels);
  return spec.batch * shortest >= kFewestRows &&
         share < (spec.batch * pixels <= kFewPixels ? kMostInsideOfFew : kMostInside);
}

}  // namespace dragonn::kernels
