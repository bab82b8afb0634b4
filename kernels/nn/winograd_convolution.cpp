// SPDX-License-Identifier: MIT
#include <algorithm>
#include <vector>

#include <omp.h>

#include "core/error.h"
#include "kernels/nn/cpu_convolutions.h"
#include "kernels/nn/matrix_product.h"
#include "kernels/nn/winograd_simd.h"
#include "kernels/pieces.h"

namespace dragonn::kernels {
namespace {

using detail::kWinogradPositions;
using detail::WinogradChunk;
using detail::WinogradImages;

constexpr std::int64_t kKernel = 3;

std::int64_t halves(std::int64_t outputs) {
  return (outputs + 1) / 2;
}

bool is_possible(const ConvolutionSpec& spec) {
  const auto fits = [](const Window& window) {
    return window.kernel == kKernel && window.stride == 1 && window.padding < kKernel;
  };
  const auto whole = [](std::int64_t channels) { return channels % detail::kWinogradBlock == 0; };
  return spec.groups == 1 && fits(spec.vertical) && fits(spec.horizontal) &&
         spec.vertical.padding == spec.horizontal.padding && whole(spec.channels) && whole(spec.output_channels);
}

/// The tiles of a batch, in chunks whose transformed inputs and outputs stay in a processor's own cache.
class Tiling {
 public:
  Tiling(std::size_t tiles, std::size_t channels_of_both) : tiles_(tiles) {
    constexpr std::size_t kFloats = std::size_t{1} << 16;  // 256 KiB
    constexpr std::size_t kRows = 24, kMin = 2 * kRows;    // products take up to 24 rows at a time
    length_ = std::max(kMin, kFloats / (kWinogradPositions * channels_of_both) / kRows * kRows);
    length_ = std::min(length_, std::max<std::size_t>(1, tiles));
  }
  std::size_t length() const { return length_; }
  std::size_t count() const { return (tiles_ + length_ - 1) / length_; }
  WinogradChunk chunk(std::size_t number) const { return {number * length_, std::min(tiles_, (number + 1) * length_)}; }

 private:
  std::size_t tiles_;
  std::size_t length_;
};

/// Returns the floats of a transformed chunk.
std::size_t transformed_floats(const Tiling& tiling, std::size_t channels) {
  return detail::winograd_floats(tiling.length(), channels);
}

class WinogradConvolution final : public Plan {
 public:
  explicit WinogradConvolution(const ConvolutionSpec& spec)
      : spec_(spec),
        threads_(static_cast<std::size_t>(omp_get_max_threads())),
        inputs_(static_cast<std::size_t>(spec.channels)),
        outputs_(static_cast<std::size_t>(spec.output_channels)),
        height_(spec.vertical.outputs(spec.height)),
        width_(spec.horizontal.outputs(spec.width)),
        forward_tiles_(tiles(height_, width_), inputs_ + outputs_),
        backward_tiles_(tiles(spec.height, spec.width), inputs_ + outputs_),
        zeros_(std::max(inputs_, outputs_), 0.0f) {
    DRAGONN_CHECK(is_possible(spec), "Winograd's convolution with a kernel of {} x {}", spec.vertical.kernel,
                  spec.horizontal.kernel);
    // The chunks of a group add up their products; the groups' sums are added up in order. So no sum depends on the
    // number of threads.
    constexpr std::size_t kFloats = std::size_t{1} << 19, kMax = 32, kMin = 4;
    const std::size_t groups = std::clamp(kFloats / sum_floats(), kMin, kMax);
    groups_ = std::min(groups, forward_tiles_.count());
  }

  PlanMemory memory() const override {
    const auto chunks = [&](const Tiling& tiling) {
      return threads_ * (transformed_floats(tiling, inputs_) + transformed_floats(tiling, outputs_));
    };
    const std::size_t forward = sum_floats() + chunks(forward_tiles_);
    if (!spec_.training) return {0, forward, 0};
    return {0, forward,
            std::max(groups_ * sum_floats() + chunks(forward_tiles_),
                     spec_.input_gradient ? sum_floats() + chunks(backward_tiles_) : 0)};
  }

  void forward(const ForwardPass& pass) override {
    convolve(forward_tiles_, images_read(), images_written(), pass.inputs[0].data(), pass.parameters[0].data(), false,
             bias_of(pass.parameters).data(), pass.output.data(), pass.scratch.data());
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    if (spec_.bias)
      detail::sum_columns({pass.output_gradients[0].data(), spec_.batch * height_ * width_, spec_.output_channels},
                          bias_of(pass.parameter_gradients).data());
    run_backward_weights(pass);
    if (!spec_.input_gradient) return;
    // The gradient of the input is a convolution of the outputs' with the padding that the forward pass left out.
    WinogradImages read = images_written(), written = images_read();
    read.first = spec_.vertical.padding - (kKernel - 1);
    written.first = 0;
    read.tiles_down = written.tiles_down = halves(spec_.height);
    read.tiles_across = written.tiles_across = halves(spec_.width);
    convolve(backward_tiles_, read, written, pass.output_gradients[0].data(), pass.parameters[0].data(), true, nullptr,
             pass.input_gradients[0].data(), pass.scratch.data());
  }

 private:
  std::size_t tiles(std::int64_t height, std::int64_t width) const {
    return static_cast<std::size_t>(spec_.batch * halves(height) * halves(width));
  }
  /// The floats of transformed weights.
  std::size_t sum_floats() const { return kWinogradPositions * inputs_ * outputs_; }

  /// The tiles of the outputs, over the pixels that they read and over themselves.
  WinogradImages images_read() const {
    return {spec_.height, spec_.width, inputs_, -spec_.vertical.padding, halves(height_), halves(width_)};
  }
  WinogradImages images_written() const { return {height_, width_, outputs_, 0, halves(height_), halves(width_)}; }

  /// Calls body(task, scratch of the thread) for every task, on at most as many threads as the scratch memory is for.
  template <class Body>
  void share_out(std::size_t tasks, std::size_t scratch, const Body& body) const {
    const auto count = static_cast<std::ptrdiff_t>(tasks);
    const int threads = static_cast<int>(std::min({tasks, threads_, static_cast<std::size_t>(omp_get_max_threads())}));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (std::ptrdiff_t task = 0; task < count; ++task)
      body(static_cast<std::size_t>(task), scratch * static_cast<std::size_t>(omp_get_thread_num()));
  }

  /// Calls body(block) for every block of input channels.
  template <class Body>
  void for_each_block(const Body& body) const {
    const detail::Chunks pieces(inputs_ / detail::kWinogradBlock, 1);
    detail::for_each_chunk(pieces, [&](std::size_t piece) {
      for (std::size_t block = pieces.begin(piece); block < pieces.end(piece); ++block) body(block);
    });
  }

  void convolve(const Tiling& tiling, const WinogradImages& read, const WinogradImages& written, const float* input,
                const float* weights, bool backward, const float* bias, float* output, float* scratch) const {
    float* packed = scratch;
    for_each_block([&](std::size_t block) {
      detail::winograd_transform_weights(weights, inputs_, outputs_, block, backward, packed);
    });
    const std::size_t transformed = transformed_floats(tiling, read.channels);
    share_out(tiling.count(), transformed + transformed_floats(tiling, written.channels),
              [&](std::size_t number, std::size_t offset) {
                const WinogradChunk chunk = tiling.chunk(number);
                float* left = packed + sum_floats() + offset;
                float* product = left + transformed;
                detail::winograd_transform_input(read, chunk, input, zeros_.data(), left);
                detail::winograd_multiply(left, packed, chunk.count(), read.channels, written.channels, product);
                detail::winograd_transform_output(written, chunk, product, bias, output);
              });
  }

  void run_backward_weights(const BackwardPass& pass) const {
    float* sums = pass.scratch.data();
    const WinogradImages read = images_read(), written = images_written();
    const std::size_t transformed = transformed_floats(forward_tiles_, inputs_);
    const std::size_t each = (forward_tiles_.count() + groups_ - 1) / groups_;
    share_out(groups_, transformed + transformed_floats(forward_tiles_, outputs_),
              [&](std::size_t group, std::size_t offset) {
                float* sum = sums + group * sum_floats();
                float* left = sums + groups_ * sum_floats() + offset;
                float* right = left + transformed;
                std::fill_n(sum, sum_floats(), 0.0f);
                const std::size_t end = std::min(forward_tiles_.count(), (group + 1) * each);
                for (std::size_t number = group * each; number < end; ++number) {
                  const WinogradChunk chunk = forward_tiles_.chunk(number);
                  detail::winograd_transform_input(read, chunk, pass.inputs[0].data(), zeros_.data(), left);
                  detail::winograd_transform_output_gradient(written, chunk, pass.output_gradients[0].data(),
                                                             zeros_.data(), right);
                  detail::winograd_accumulate(left, right, chunk.count(), inputs_, outputs_, sum);
                }
              });
    for_each_block([&](std::size_t block) {
      detail::winograd_transform_weights_gradient(sums, groups_, inputs_, outputs_, block,
                                                  pass.parameter_gradients[0].data());
    });
  }

  ConvolutionSpec spec_;
  std::size_t threads_;
  std::size_t inputs_, outputs_;
  std::int64_t height_, width_;  // of the outputs
  Tiling forward_tiles_, backward_tiles_;
  std::vector<float> zeros_;
  std::size_t groups_ = 1;
};

}  // namespace

std::unique_ptr<Plan> make_winograd_convolution(const ConvolutionSpec& spec) {
  return std::make_unique<WinogradConvolution>(spec);
}

bool winograd_is_faster(const ConvolutionSpec& spec) {
  if (!is_possible(spec)) return false;
  const std::int64_t height = spec.vertical.outputs(spec.height), width = spec.horizontal.outputs(spec.width);
  const std::int64_t tiles = halves(height) * halves(width);
  // Small images read so much padding, which a direct convolution leaves out, that little is gained: with 2 x 2 pixels
  // nothing, with 4 x 4 pixels up to 1.3 times.
  constexpr double kMinGain = 1.4;
  const double multiplications =
      static_cast<double>(spec.vertical.inputs_read(spec.height) * spec.horizontal.inputs_read(spec.width));
  if (multiplications < kMinGain * static_cast<double>(tiles * std::int64_t{kWinogradPositions})) return false;
  // Few tiles do not repay transforming the weights, and adding up their gradients, which with many channels leave the
  // cache.
  constexpr std::int64_t kFewestTiles = 256, kFewestTilesOfFewChannels = 128, kFewChannels = 128;
  const bool few_channels = std::max(spec.channels, spec.output_channels) <= kFewChannels;
  return spec.batch * tiles >= (few_channels ? kFewestTilesOfFewChannels : kFewestTiles);
}

}  // namespace dragonn::kernels
