// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/error.h"
#include "kernels/nn/cpu_convolutions.h"
#include "kernels/nn/matrix_product.h"
#include "kernels/nn/strips.h"

namespace dragonn::kernels {
namespace {

/// The floats of strips at a time: they stay in the second-level cache between gathering and product.
constexpr std::int64_t kStripFloats = std::int64_t{1} << 18;

using detail::Matrix;
using detail::multiply;
using detail::transpose;

class StripConvolution final : public Plan {
 public:
  explicit StripConvolution(const ConvolutionSpec& spec) : spec_(spec), strips_(spec) {
    // The first phase has the most taps.
    const std::int64_t window = strips_.window_floats(), column = strips_.column_floats(0);
    rows_at_once_ = std::max<std::int64_t>(1, kStripFloats / ((window + column) * strips_.pixels_per_row()));
    const std::int64_t pixels = rows_at_once_ * strips_.pixels_per_row();
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
    detail::fill_rows(spec_.bias ? bias_of(pass.parameters).data() : nullptr, output_pixels(), spec_.output_channels,
                      pass.output.data());
    float* map = pass.scratch.data();
    float* windows = map + map_floats_;
    float* columns = windows + window_floats_;
    for_each_part([&](const Strips::Part& part) {
      strips_.gather_weights(part, pass.parameters[0].data(), map);
      for_each_piece(part, [&](const Strips::Rows& rows) {
        strips_.gather_windows(part, rows, pass.inputs[0].data(), windows);
        multiply(window_matrix(windows, rows), map_matrix(map, part), 0, columns);
        strips_.add_columns(part, rows, columns, pass.output.data());
      });
    });
  }

  void backward(const BackwardPass& pass) override {
    DRAGONN_CHECK(spec_.training, "backward of a plan that was made for evaluation");
    if (spec_.bias)
      detail::sum_columns({pass.output_gradients[0].data(), output_pixels(), spec_.output_channels},
                          bias_of(pass.parameter_gradients).data());
    std::ranges::fill(pass.input_gradients[0].host(), 0.0f);
    float* map = pass.scratch.data();
    float* map_gradient = map + map_floats_;
    float* windows = map_gradient + map_floats_;
    float* columns = windows + window_floats_;
    for_each_part([&](const Strips::Part& part) {
      if (spec_.input_gradient) strips_.gather_weights(part, pass.parameters[0].data(), map);
      std::fill_n(map_gradient, map_floats_, 0.0f);
      for_each_piece(part, [&](const Strips::Rows& rows) {
        strips_.gather_columns(part, rows, pass.output_gradients[0].data(), columns);
        strips_.gather_windows(part, rows, pass.inputs[0].data(), windows);
        multiply(transpose(window_matrix(windows, rows)), column_matrix(columns, part, rows), 1, map_gradient);
        if (!spec_.input_gradient) return;
        multiply(column_matrix(columns, part, rows), transpose(map_matrix(map, part)), 0, windows);
        strips_.add_windows(part, rows, windows, pass.input_gradients[0].data());
      });
      strips_.scatter_weights(part, map_gradient, pass.parameter_gradients[0].data());
    });
  }

 private:
  /// Calls body(part) for every part that has weights.
  template <class Body>
  void for_each_part(const Body& body) const {
    for (std::int64_t group = 0; group < spec_.groups; ++group)
      for (std::int64_t phase = 0; phase < strips_.phases(); ++phase)
        if (strips_.taps(phase) > 0) body(Strips::Part{group, phase});
  }

  template <class Body>
  void for_each_piece(const Strips::Part& part, const Body& body) const {
    const std::int64_t rows = strips_.rows(part.phase);
    for (std::int64_t begin = 0; begin < rows; begin += rows_at_once_)
      body(Strips::Rows{begin, std::min(rows, begin + rows_at_once_)});
  }

  Matrix window_matrix(const float* windows, const Strips::Rows& rows) const {
    return {windows, rows.count() * strips_.pixels_per_row(), strips_.window_floats()};
  }
  Matrix column_matrix(const float* columns, const Strips::Part& part, const Strips::Rows& rows) const {
    return {columns, rows.count() * strips_.pixels_per_row(), strips_.column_floats(part.phase)};
  }
  Matrix map_matrix(const float* map, const Strips::Part& part) const {
    return {map, strips_.window_floats(), strips_.column_floats(part.phase)};
  }

  std::int64_t output_pixels() const {
    return spec_.batch * spec_.vertical.outputs(spec_.height) * spec_.horizontal.outputs(spec_.width);
  }

  ConvolutionSpec spec_;
  Strips strips_;
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
