// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/error.h"
#include "kernels/nn/cpu_convolutions.h"
#include "kernels/nn/matrix_product.h"
#include "kernels/pieces.h"

namespace dragonn::kernels {
namespace {

/// The floats of strips at a time: they stay in the second-level cache between gathering and product.
constexpr std::int64_t kStripFloats = std::int64_t{1} << 18;

using detail::Matrix;
using detail::multiply;
using detail::transpose;

/// Calls body(begin, end) for pieces of [0, count) of at least `minimum`, in parallel.
template <class Body>
void share_out(std::int64_t count, std::size_t minimum, const Body& body) {
  for_each_piece(static_cast<std::size_t>(count), minimum, [&](std::size_t, std::size_t begin, std::size_t end) {
    body(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
  });
}

void add(const float* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

/// A convolution by strips. A patch per output pixel holds every input as often as the kernel has rows. Strips hold it
/// once per output column only, and leave the sum over the kernel's rows to the product. With "pixel" for an input row
/// and an output column x:
///
/// - the *window* of a pixel has the inputs of its row that x reads: [kernel width, channels];
/// - its *column* has the outputs at x that read its row, one per kernel row (a "tap"): [taps, output channels].
///
/// A convolution is then a linear map from windows to columns, with the weights as [kernel width * channels,
/// taps * output channels], and its gradients are those of a linear map. With a vertical stride s, rows of s kinds
/// ("phases") meet different kernel rows; with groups, each group is a map of its own.
class StripConvolution final : public Plan {
 public:
  explicit StripConvolution(const ConvolutionSpec& spec)
      : spec_(spec),
        output_height_(spec.output_height()),
        output_width_(spec.output_width()),
        group_inputs_(spec.channels / spec.groups),
        group_outputs_(spec.output_channels / spec.groups) {
    const std::int64_t window = window_floats(), column = column_floats(0);  // the first phase has the most taps
    rows_at_once_ = std::max<std::int64_t>(1, kStripFloats / ((window + column) * output_width_));
    const std::int64_t pixels = rows_at_once_ * output_width_;
    const auto aligned = [](std::int64_t floats) { return aligned_floats(static_cast<std::size_t>(floats)); };
    map_floats_ = aligned(window * column);
    window_floats_ = aligned(pixels * window);
    column_floats_ = aligned(pixels * column);
  }

  PlanMemory memory() const override {
    const std::size_t forward = map_floats_ + window_floats_ + column_floats_;
    return {0, forward, spec_.training ? forward + map_floats_ : 0};
  }

  void forward(const ForwardPass& pass) override {
    detail::fill_rows(spec_.bias ? bias_of(pass.parameters).data() : nullptr, spec_.output_pixels(),
                      spec_.output_channels, pass.output.data());
    float* map = pass.scratch.data();
    float* windows = map + map_floats_;
    float* columns = windows + window_floats_;
    for_each_part([&](const Part& part) {
      gather_weights(part, pass.parameters[0].data(), map);
      for_each_piece(part, [&](const Rows& rows) {
        gather_windows(part, rows, pass.inputs[0].data(), windows);
        multiply(window_matrix(windows, rows), map_matrix(map, part), 0, columns);
        add_columns(part, rows, columns, pass.output.data());
      });
    });
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    if (spec_.bias)
      detail::sum_columns({pass.output_gradients[0].data(), spec_.output_pixels(), spec_.output_channels},
                          bias_of(pass.parameter_gradients).data());
    std::ranges::fill(pass.input_gradients[0].host(), 0.0f);
    float* map = pass.scratch.data();
    float* map_gradient = map + map_floats_;
    float* windows = map_gradient + map_floats_;
    float* columns = windows + window_floats_;
    for_each_part([&](const Part& part) {
      if (spec_.input_gradient) gather_weights(part, pass.parameters[0].data(), map);
      std::fill_n(map_gradient, map_floats_, 0.0f);
      for_each_piece(part, [&](const Rows& rows) {
        gather_columns(part, rows, pass.output_gradients[0].data(), columns);
        gather_windows(part, rows, pass.inputs[0].data(), windows);
        multiply(transpose(window_matrix(windows, rows)), column_matrix(columns, part, rows), 1, map_gradient);
        if (!spec_.input_gradient) return;
        multiply(column_matrix(columns, part, rows), transpose(map_matrix(map, part)), 0, windows);
        add_windows(part, rows, windows, pass.input_gradients[0].data());
      });
      scatter_weights(part, map_gradient, pass.parameter_gradients[0].data());
    });
  }

 private:
  /// One map: the rows of one phase in one group.
  struct Part {
    std::int64_t group = 0, phase = 0;
  };
  /// Some of a part's rows, over all images.
  struct Rows {
    std::int64_t begin = 0, end = 0;
    std::int64_t count() const { return end - begin; }
  };
  struct Place {
    std::int64_t image = 0, y = 0;
  };

  /// Calls body(part) for every part that has weights.
  template <class Body>
  void for_each_part(const Body& body) const {
    for (std::int64_t group = 0; group < spec_.groups; ++group)
      for (std::int64_t phase = 0; phase < spec_.vertical.stride; ++phase)
        if (taps(phase) > 0) body(Part{group, phase});
  }

  template <class Body>
  void for_each_piece(const Part& part, const Body& body) const {
    const std::int64_t rows = spec_.batch * rows_per_image(part.phase);
    for (std::int64_t begin = 0; begin < rows; begin += rows_at_once_)
      body(Rows{begin, std::min(rows, begin + rows_at_once_)});
  }

  Matrix window_matrix(const float* windows, const Rows& rows) const {
    return {windows, rows.count() * output_width_, window_floats()};
  }
  Matrix column_matrix(const float* columns, const Part& part, const Rows& rows) const {
    return {columns, rows.count() * output_width_, column_floats(part.phase)};
  }
  Matrix map_matrix(const float* map, const Part& part) const {
    return {map, window_floats(), column_floats(part.phase)};
  }

  std::int64_t window_floats() const { return spec_.horizontal.kernel * group_inputs_; }
  std::int64_t column_floats(std::int64_t phase) const { return taps(phase) * group_outputs_; }

  std::int64_t taps(std::int64_t phase) const {
    return std::max<std::int64_t>(0,
                                  (spec_.vertical.kernel - phase + spec_.vertical.stride - 1) / spec_.vertical.stride);
  }

  /// Returns the first row of a phase. Row y has phase (y + padding) mod stride: that of the kernel rows that can lie
  /// on it.
  std::int64_t first_row(std::int64_t phase) const {
    const std::int64_t stride = spec_.vertical.stride;
    return (phase + stride - spec_.vertical.padding % stride) % stride;
  }

  std::int64_t rows_per_image(std::int64_t phase) const {
    const std::int64_t stride = spec_.vertical.stride;
    return std::max<std::int64_t>(0, (spec_.height - first_row(phase) + stride - 1) / stride);
  }

  Place place(const Part& part, std::int64_t row) const {
    const std::int64_t per_image = rows_per_image(part.phase);
    return {row / per_image, first_row(part.phase) + row % per_image * spec_.vertical.stride};
  }

  /// Calls body(offset in the input, offset in the window, floats).
  template <class Body>
  void for_each_window_run(const Part& part, const Place& place, std::int64_t x, const Body& body) const {
    const std::int64_t left = x * spec_.horizontal.stride - spec_.horizontal.padding;
    const std::int64_t begin = std::max<std::int64_t>(0, -left);
    const std::int64_t end = std::min(spec_.horizontal.kernel, spec_.width - left);
    const std::int64_t first_pixel = (place.image * spec_.height + place.y) * spec_.width + left;
    const std::int64_t together = spec_.groups == 1 ? end - begin : 1;  // pixels whose channels lie side by side
    for (std::int64_t kernel_x = begin; kernel_x < end; kernel_x += together)
      body((first_pixel + kernel_x) * spec_.channels + part.group * group_inputs_, kernel_x * group_inputs_,
           together * group_inputs_);
  }

  /// Calls body(offset in the output, offset in the column, floats).
  template <class Body>
  void for_each_column_run(const Part& part, const Place& place, std::int64_t x, const Body& body) const {
    // Kernel row `phase + tap * stride` lies on row y for the output row `last - tap`.
    const std::int64_t last = (place.y + spec_.vertical.padding - part.phase) / spec_.vertical.stride;
    const std::int64_t image = place.image * output_height_;
    const std::int64_t end = std::min(taps(part.phase), last + 1);
    for (std::int64_t tap = std::max<std::int64_t>(0, last - output_height_ + 1); tap < end; ++tap)
      body(((image + last - tap) * output_width_ + x) * spec_.output_channels + part.group * group_outputs_,
           tap * group_outputs_, group_outputs_);
  }

  /// Calls body(offset in the weights, offset in the map, floats).
  template <class Body>
  void for_each_weight_run(const Part& part, const Body& body) const {
    for (std::int64_t tap = 0; tap < taps(part.phase); ++tap)
      for (std::int64_t in = 0; in < window_floats(); ++in) {
        const std::int64_t kernel_y = part.phase + tap * spec_.vertical.stride;
        body((kernel_y * window_floats() + in) * spec_.output_channels + part.group * group_outputs_,
             in * column_floats(part.phase) + tap * group_outputs_, group_outputs_);
      }
  }

  /// Calls body(place, x, memory of the pixel) for every pixel of the rows, whose memory lies one behind the other.
  template <class T, class Body>
  void for_each_pixel(const Part& part, const Rows& rows, std::int64_t floats, T* pixels, const Body& body) const {
    share_out(rows.count(), 1, [&](std::int64_t begin, std::int64_t end) {
      T* pixel = pixels + begin * output_width_ * floats;
      for (std::int64_t row = begin; row < end; ++row) {
        const Place here = place(part, rows.begin + row);
        for (std::int64_t x = 0; x < output_width_; ++x, pixel += floats) body(here, x, pixel);
      }
    });
  }

  /// Gathers windows. @param windows [rows * output width, window_floats()]: zeros for padding.
  void gather_windows(const Part& part, const Rows& rows, const float* input, float* windows) const {
    for_each_pixel(part, rows, window_floats(), windows, [&](const Place& here, std::int64_t x, float* window) {
      std::fill_n(window, window_floats(), 0.0f);
      for_each_window_run(part, here, x, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
        std::copy_n(input + from, count, window + to);
      });
    });
  }

  void add_windows(const Part& part, const Rows& rows, const float* windows, float* input) const {
    for_each_pixel(part, rows, window_floats(), windows, [&](const Place& here, std::int64_t x, const float* window) {
      for_each_window_run(part, here, x, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
        add(window + from, count, input + to);
      });
    });
  }

  /// Gathers columns. @param columns [rows * output width, column_floats()]: zeros where there is no output row.
  void gather_columns(const Part& part, const Rows& rows, const float* output, float* columns) const {
    const std::int64_t floats = column_floats(part.phase);
    for_each_pixel(part, rows, floats, columns, [&](const Place& here, std::int64_t x, float* column) {
      std::fill_n(column, floats, 0.0f);
      for_each_column_run(part, here, x, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
        std::copy_n(output + from, count, column + to);
      });
    });
  }

  void add_columns(const Part& part, const Rows& rows, const float* columns, float* output) const {
    const std::int64_t floats = column_floats(part.phase);
    constexpr std::size_t kFewColumns = 8;
    // Rows share output rows, so the threads share out the output columns.
    share_out(output_width_, kFewColumns, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        const Place here = place(part, row);
        const float* column = columns + ((row - rows.begin) * output_width_ + begin) * floats;
        for (std::int64_t x = begin; x < end; ++x, column += floats)
          for_each_column_run(part, here, x, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
            add(column + from, count, output + to);
          });
      }
    });
  }

  /// Gathers the weights of one part from HWIO weights, and below puts them back.
  /// @param map is [window_floats(), column_floats()].
  void gather_weights(const Part& part, const float* weights, float* map) const {
    for_each_weight_run(part, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      std::copy_n(weights + from, count, map + to);
    });
  }

  void scatter_weights(const Part& part, const float* map, float* weights) const {
    for_each_weight_run(part, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
      std::copy_n(map + from, count, weights + to);
    });
  }

  ConvolutionSpec spec_;
  std::int64_t output_height_, output_width_;
  std::int64_t group_inputs_, group_outputs_;
  std::int64_t rows_at_once_ = 1;
  std::size_t map_floats_ = 0;     // the weights of a part
  std::size_t window_floats_ = 0;  // of a piece
  std::size_t column_floats_ = 0;
};

}  // namespace

std::unique_ptr<Plan> make_strip_convolution(const ConvolutionSpec& spec) {
  return std::make_unique<StripConvolution>(spec);
}

}  // namespace dragonn::kernels
