// SPDX-License-Identifier: MIT
/// Strips and patches: a convolution's tensors as factors of matrix products. For .cpp files of this folder only.
#pragma once

#include <cstdint>

#include "kernels/nn/convolution.h"

namespace dragonn::kernels {

/// The patch matrix of an ungrouped convolution: a row per output pixel with the inputs of its window in the order of
/// HWIO weights, and zeros for padding. Host memory.
class Patches {
 public:
  explicit Patches(const ConvolutionSpec& spec);

  std::int64_t rows() const { return spec_.batch * output_height_ * output_width_; }
  std::int64_t columns() const { return spec_.vertical.kernel * spec_.horizontal.kernel * spec_.channels; }
  /// Gathers the patches. @param input [batch, height, width, channels].  @param patches [rows(), columns()],
  /// overwritten.
  void gather(const float* input, float* patches) const;

 private:
  void gather_row(const float* image, std::int64_t output_y, std::int64_t output_x, float* patch) const;

  ConvolutionSpec spec_;
  std::int64_t output_height_;
  std::int64_t output_width_;
};

/// A patch per output pixel holds every input as often as the kernel has rows. Strips hold it
/// once per output column only, and leave the sum over the kernel's rows to the product. With "pixel" for an input row
/// and an output column x:
///
/// - the *window* of a pixel has the inputs of its row that x reads: [kernel width, channels];
/// - its *column* has the outputs at x that read its row, one per kernel row (a "tap"): [taps, output channels].
///
/// A convolution is then a linear map from windows to columns, with the weights as [kernel width * channels,
/// taps * output channels], and its gradients are those of a linear map. With a vertical stride s, rows of s kinds
/// ("phases") meet different kernel rows; with groups, each group is a map of its own. Host memory.
class Strips {
 public:
  /// One map: the rows of one phase in one group.
  struct Part {
    std::int64_t group = 0, phase = 0;
  };
  /// Some of a part's rows, over all images.
  struct Rows {
    std::int64_t begin = 0, end = 0;
    std::int64_t count() const { return end - begin; }
  };

  explicit Strips(const ConvolutionSpec& spec);

  std::int64_t phases() const { return spec_.vertical.stride; }
  std::int64_t taps(std::int64_t phase) const;
  std::int64_t rows(std::int64_t phase) const { return spec_.batch * rows_per_image(phase); }
  std::int64_t pixels_per_row() const { return output_width_; }
  std::int64_t window_floats() const { return spec_.horizontal.kernel * group_inputs_; }
  std::int64_t column_floats(std::int64_t phase) const { return taps(phase) * group_outputs_; }

  /// Gathers windows. @param windows [rows * pixels_per_row(), window_floats()]: zeros for padding.
  void gather_windows(const Part& part, const Rows& rows, const float* input, float* windows) const;
  void add_windows(const Part& part, const Rows& rows, const float* windows, float* input) const;
  /// Gathers columns. @param columns [rows * pixels_per_row(), column_floats()]: zeros where there is no output row.
  void gather_columns(const Part& part, const Rows& rows, const float* output, float* columns) const;
  void add_columns(const Part& part, const Rows& rows, const float* columns, float* output) const;

  /// Gathers the weights of one part from HWIO weights, and below puts them back.
  /// @param map is [window_floats(), column_floats()].
  void gather_weights(const Part& part, const float* weights, float* map) const;
  void scatter_weights(const Part& part, const float* map, float* weights) const;

 private:
  struct Place {
    std::int64_t image = 0, y = 0;
  };

  std::int64_t first_row(std::int64_t phase) const;
  std::int64_t rows_per_image(std::int64_t phase) const;
  Place place(const Part& part, std::int64_t row) const;

  template <class T, class Body>
  void for_each_pixel(const Part& part, const Rows& rows, std::int64_t floats, T* pixels, const Body& body) const;
  template <class Body>
  void for_each_window_run(const Part& part, const Place& place, std::int64_t x, const Body& body) const;
  template <class Body>
  void for_each_column_run(const Part& part, const Place& place, std::int64_t x, const Body& body) const;
  template <class Body>
  void for_each_weight_run(const Part& part, const Body& body) const;

  ConvolutionSpec spec_;
  std::int64_t output_height_;
  std::int64_t output_width_;
  std::int64_t group_inputs_;
  std::int64_t group_outputs_;
};

}  // namespace dragonn::kernels
