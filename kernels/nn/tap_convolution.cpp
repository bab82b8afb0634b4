// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include <omp.h>

#include "core/error.h"
#include "kernels/nn/cpu_convolutions.h"
#include "kernels/nn/matrix_product.h"
#include "kernels/nn/onednn.h"
#include "kernels/pieces.h"

namespace dragonn::kernels {
namespace {

using detail::Matrix;
using detail::multiply;
using detail::transpose;

/// Neighbouring output pixels, and the equally many input pixels that a tap joins to them. Pixels are counted in rows
/// of `pitch` of them.
struct Run {
  std::int64_t tap = 0, input = 0, output = 0, pixels = 0;

  /// Returns the part of the run whose output (or input) pixels are in [begin, end).
  Run clipped(std::int64_t Run::*side, std::int64_t begin, std::int64_t end) const {
    const std::int64_t skipped = std::max<std::int64_t>(0, begin - this->*side);
    const std::int64_t last = std::min(pixels, end - this->*side);
    return {tap, input + skipped, output + skipped, last - skipped};
  }
};

/// The rows of pixels in which a convolution is computed. A gap of zeros behind each row stands for the padding on its
/// right and on the next row's left, so that a tap moves whole images by a constant distance, in one run: what is
/// computed for the gaps is of no use. Narrow images have no gaps, and a run per row.
struct Pitch {
  std::int64_t pixels = 0;  ///< from row to row, of the input and of the output
  bool gaps = false;
  std::int64_t margin = 0;  ///< pixels that runs reach before the first and behind the last input row

  explicit Pitch(const ConvolutionSpec& spec) {
    constexpr std::int64_t kNarrow = 12;
    const std::int64_t outputs = spec.output_width(), left = spec.horizontal.padding;
    const std::int64_t reach = spec.horizontal.kernel - 1 - left;  // of the last tap
    const std::int64_t right = outputs + reach - spec.width;       // padding
    pixels = std::max(spec.width, outputs);
    gaps = pixels >= kNarrow && (left > 0 || right > 0);
    if (!gaps) return;
    pixels = std::max({outputs, spec.width + left, spec.width + right});
    margin = std::max(left, reach);
  }
};

/// Returns the runs of all taps, tap by tap. Pixels outside the image are in none, but for those of gaps.
std::vector<Run> find_runs(const ConvolutionSpec& spec) {
  std::vector<Run> runs;
  const Pitch pitch(spec);
  const std::int64_t height = spec.output_height(), width = spec.output_width();
  for (std::int64_t tap = 0; tap < spec.vertical.kernel * spec.horizontal.kernel; ++tap) {
    const std::int64_t down = tap / spec.horizontal.kernel - spec.vertical.padding;
    const std::int64_t right = tap % spec.horizontal.kernel - spec.horizontal.padding;
    const std::int64_t top = std::max<std::int64_t>(0, -down), bottom = std::min(height, spec.height - down);
    const std::int64_t shift = down * pitch.pixels + right;
    if (pitch.gaps) {
      if (top < bottom)
        runs.push_back({tap, top * pitch.pixels + shift, top * pitch.pixels, (bottom - top) * pitch.pixels});
      continue;
    }
    const std::int64_t begin = std::max<std::int64_t>(0, -right), end = std::min(width, spec.width - right);
    for (std::int64_t y = top; y < bottom; ++y) {
      if (begin >= end) break;
      const std::int64_t output = y * pitch.pixels + begin;
      const bool follows = !runs.empty() && runs.back().tap == tap && runs.back().output + runs.back().pixels == output;
      if (follows)
        runs.back().pixels += end - begin;
      else
        runs.push_back({tap, output + shift, output, end - begin});
    }
  }
  return runs;
}

/// The copies of a tensor that products work on: [pixels, batch, channels], so that the pixels of a run, of all images,
/// are the rows of a matrix.
class ByPixel {
 public:
  /// @param images [batch, height, width, channels].  @param margin of zeros, in pixels.
  ByPixel(const std::array<std::int64_t, 4>& images, const Pitch& pitch, std::int64_t margin)
      : batch_(images[0]),
        height_(images[1]),
        width_(images[2]),
        channels_(images[3]),
        pitch_(pitch.pixels),
        margin_(margin) {}

  /// The range of pixels, with its margins.
  std::int64_t begin() const { return -margin_; }
  std::int64_t end() const { return height_ * pitch_ + margin_; }
  std::int64_t rows() const { return (end() - begin()) * batch_; }
  std::int64_t channels() const { return channels_; }
  std::size_t floats() const { return aligned_floats(static_cast<std::size_t>(rows() * channels_)); }
  float* at(float* copy, std::int64_t pixel) const { return copy + offset(pixel); }
  Matrix run(const float* copy, std::int64_t pixel, std::int64_t pixels) const {
    return {copy + offset(pixel), pixels * batch_, channels_};
  }
  /// Copies from [batch, pixels, channels], with zeros between and around the rows, and back.
  void gather(const float* images, float* copy) const {
    for_each_pixel([&](std::int64_t by_image, std::int64_t by_pixel) {
      std::copy_n(images + by_image, channels_, copy + by_pixel);
    });
    const auto clear = [&](std::int64_t pixel, std::int64_t last) { std::fill(at(copy, pixel), at(copy, last), 0.0f); };
    clear(begin(), 0);
    for (std::int64_t y = 0; y < height_; ++y) clear(y * pitch_ + width_, (y + 1) * pitch_);
    clear(height_ * pitch_, end());
  }
  void scatter(const float* copy, float* images) const {
    for_each_pixel([&](std::int64_t by_image, std::int64_t by_pixel) {
      std::copy_n(copy + by_pixel, channels_, images + by_image);
    });
  }

 private:
  std::int64_t offset(std::int64_t pixel) const { return (pixel + margin_) * batch_ * channels_; }

  template <class Body>
  void for_each_pixel(const Body& body) const {
    const std::size_t min = rows_per_piece(static_cast<std::size_t>(channels_));
    const auto pixels = static_cast<std::size_t>(batch_ * height_ * width_);
    for_each_piece(pixels, min, [&](std::size_t, std::size_t first, std::size_t last) {
      for (auto row = static_cast<std::int64_t>(first); row < static_cast<std::int64_t>(last); ++row) {
        const std::int64_t x = row % width_, y = row / width_ % height_, image = row / (width_ * height_);
        body(row * channels_, offset(y * pitch_ + x) + image * channels_);
      }
    });
  }

  std::int64_t batch_, height_, width_, channels_;
  std::int64_t pitch_;   // pixels from row to row
  std::int64_t margin_;  // pixels
};

class TapConvolution final : public Plan {
 public:
  explicit TapConvolution(const ConvolutionSpec& spec)
      : spec_(spec),
        pitch_(spec),
        runs_(find_runs(spec)),
        inputs_({spec.batch, spec.height, spec.width, spec.channels}, pitch_, pitch_.margin),
        outputs_({spec.batch, spec.output_height(), spec.output_width(), spec.output_channels}, pitch_, 0) {}

  PlanMemory memory() const override {
    const std::size_t both = inputs_.floats() + outputs_.floats();
    return {0, both, spec_.training ? both + (spec_.input_gradient ? inputs_.floats() : 0) : 0};
  }

  void forward(const ForwardPass& pass) override {
    float* input = pass.scratch.data();
    float* output = input + inputs_.floats();
    inputs_.gather(pass.inputs[0].data(), input);
    detail::fill_rows(spec_.bias ? bias_of(pass.parameters).data() : nullptr, outputs_.rows(), outputs_.channels(),
                      output);
    for_each_run(outputs_, &Run::output, [&](const Run& run) {
      multiply(inputs_.run(input, run.input, run.pixels), weights_of(pass.parameters[0].data(), run), 1,
               outputs_.at(output, run.output));
    });
    outputs_.scatter(output, pass.output.data());
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    float* input = pass.scratch.data();
    float* output_gradient = input + inputs_.floats();
    outputs_.gather(pass.output_gradients[0].data(), output_gradient);
    if (spec_.bias)
      detail::sum_columns({output_gradient, outputs_.rows(), outputs_.channels()},
                          bias_of(pass.parameter_gradients).data());
    inputs_.gather(pass.inputs[0].data(), input);
    run_backward_weights(input, output_gradient, pass.parameter_gradients[0].data());
    if (!spec_.input_gradient) return;
    float* input_gradient = output_gradient + outputs_.floats();
    detail::fill_rows(nullptr, inputs_.rows(), inputs_.channels(), input_gradient);
    for_each_run(inputs_, &Run::input, [&](const Run& run) {
      multiply(outputs_.run(output_gradient, run.output, run.pixels),
               transpose(weights_of(pass.parameters[0].data(), run)), 1, inputs_.at(input_gradient, run.input));
    });
    inputs_.scatter(input_gradient, pass.input_gradients[0].data());
  }

 private:
  Matrix weights_of(const float* weights, const Run& run) const {
    return {weights + run.tap * spec_.channels * spec_.output_channels, spec_.channels, spec_.output_channels};
  }

  /// Calls body(run) for all runs, cut into bands of pixels of `target`: a band's sums stay in a processor's own cache
  /// while tap after tap adds to them, and threads share out the bands. Where these are too few, the library shares out
  /// each product.
  template <class Body>
  void for_each_run(const ByPixel& target, std::int64_t Run::*side, const Body& body) const {
    constexpr std::int64_t kBandRows = 512;
    const std::int64_t lines = (kBandRows + pitch_.pixels * spec_.batch - 1) / (pitch_.pixels * spec_.batch);
    const detail::Chunks bands(static_cast<std::size_t>(target.end() - target.begin()),
                               static_cast<std::size_t>(lines * pitch_.pixels));
    if (bands.count() < 2 * static_cast<std::size_t>(omp_get_max_threads())) {
      for (const Run& run : runs_) body(run);
      return;
    }
    share_out(bands, [&](std::size_t band) {
      const auto begin = target.begin() + static_cast<std::int64_t>(bands.begin(band));
      const auto end = target.begin() + static_cast<std::int64_t>(bands.end(band));
      for (const Run& run : runs_)
        if (const Run part = run.clipped(side, begin, end); part.pixels > 0) body(part);
    });
  }

  void run_backward_weights(const float* input, const float* output_gradient, float* gradient) const {
    // Threads that share out a product with few weights mostly wait for each other.
    constexpr std::int64_t kFewWeights = std::int64_t{1} << 14;
    const std::int64_t taps = spec_.vertical.kernel * spec_.horizontal.kernel;
    const std::int64_t floats = spec_.channels * spec_.output_channels;
    const auto run_tap = [&](std::int64_t tap) {
      bool first = true;
      for (const Run& run : runs_) {
        if (run.tap != tap) continue;
        multiply(transpose(inputs_.run(input, run.input, run.pixels)),
                 outputs_.run(output_gradient, run.output, run.pixels), first ? 0 : 1, gradient + tap * floats);
        first = false;
      }
      if (first) std::fill_n(gradient + tap * floats, floats, 0.0f);
    };
    if (floats <= kFewWeights && taps >= 4 * omp_get_max_threads())
      share_out(detail::Chunks(static_cast<std::size_t>(taps), 1),
                [&](std::size_t tap) { run_tap(static_cast<std::int64_t>(tap)); });
    else
      for (std::int64_t tap = 0; tap < taps; ++tap) run_tap(tap);
  }

  /// Calls body(chunk) for every chunk on the threads. What it throws must not leave a thread.
  template <class Body>
  static void share_out(const detail::Chunks& chunks, const Body& body) {
    std::atomic<bool> failed = false;
    detail::for_each_chunk(chunks, [&](std::size_t chunk) {
      try {
        body(chunk);
      } catch (const Error&) {
        failed = true;
      }
    });
    DRAGONN_CHECK(!failed, "oneDNN's sgemm failed");
  }

  ConvolutionSpec spec_;
  Pitch pitch_;
  std::vector<Run> runs_;
  ByPixel inputs_, outputs_;
};

/// Returns which share of the inputs that a sliding window reads is no padding.
double share_inside(const Window& window, std::int64_t inputs) {
  return static_cast<double>(window.inputs_read(inputs)) / static_cast<double>(window.kernel * window.outputs(inputs));
}

}  // namespace

std::unique_ptr<Plan> make_tap_convolution(const ConvolutionSpec& spec) {
  return std::make_unique<TapConvolution>(spec);
}

bool taps_are_faster(const ConvolutionSpec& spec) {
  // Smaller products are slow.
  constexpr std::int64_t kFewestRows = 32, kFewestChannels = 128, kFewestChannelsOfAvx2 = 64;
  const std::int64_t taps = spec.vertical.kernel * spec.horizontal.kernel;
  if (spec.groups != 1 || spec.vertical.stride != 1 || spec.horizontal.stride != 1) return false;
  std::int64_t shortest = spec.height * spec.width;
  for (const Run& run : find_runs(spec)) shortest = std::min(shortest, run.pixels);
  if (shortest * spec.batch < kFewestRows) return false;
  const std::int64_t channels = std::min(spec.channels, spec.output_channels);
  // oneDNN's convolutions for AVX2 reach two thirds of the rate of its products, whatever the image.
  if (!onednn::uses_avx512()) return taps > 1 && channels >= kFewestChannelsOfAvx2;
  // Those for AVX-512 are slower if padding adds much to them, or if pixels are so few that copying the weights to
  // oneDNN's layout and back costs as much.
  constexpr std::int64_t kFewPixels = 512;
  constexpr double kMaxInside = 0.75, kMaxInsideOfFew = 0.9;
  const std::int64_t pixels = spec.output_height() * spec.output_width();
  const double share = share_inside(spec.vertical, spec.height) * share_inside(spec.horizontal, spec.width);
  return channels >= kFewestChannels && share < (spec.batch * pixels <= kFewPixels ? kMaxInsideOfFew : kMaxInside);
}

}  // namespace dragonn::kernels
