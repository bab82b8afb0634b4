// SPDX-License-Identifier: MIT
#include "kernels/nn/strips.h"

#include <algorithm>

#include "kernels/pieces.h"

namespace dragonn::kernels {
namespace {

/// Calls body(begin, end) for pieces of [0, count) of at least `minimum`, in parallel.
template <class Body>
void for_each_piece(std::int64_t count, std::size_t minimum, const Body& body) {
  const detail::Chunks chunks(static_cast<std::size_t>(count), minimum);
  detail::for_each_chunk(chunks, [&](std::size_t chunk) {
    body(static_cast<std::int64_t>(chunks.begin(chunk)), static_cast<std::int64_t>(chunks.end(chunk)));
  });
}

void add(const float* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

Patches::Patches(const ConvolutionSpec& spec)
    : spec_(spec),
      output_height_(spec.vertical.outputs(spec.height)),
      output_width_(spec.horizontal.outputs(spec.width)) {}

void Patches::gather(const float* input, float* patches) const {
  const detail::Chunks images(static_cast<std::size_t>(spec_.batch), 1);
  detail::for_each_chunk(images, [&](std::size_t chunk) {
    for (std::size_t image = images.begin(chunk); image < images.end(chunk); ++image) {
      const float* pixels = input + static_cast<std::int64_t>(image) * spec_.height * spec_.width * spec_.channels;
      float* patch = patches + static_cast<std::int64_t>(image) * output_height_ * output_width_ * columns();
      for (std::int64_t y = 0; y < output_height_; ++y)
        for (std::int64_t x = 0; x < output_width_; ++x, patch += columns()) gather_row(pixels, y, x, patch);
    }
  });
}

void Patches::gather_row(const float* image, std::int64_t output_y, std::int64_t output_x, float* patch) const {
  for (std::int64_t kernel_y = 0; kernel_y < spec_.vertical.kernel; ++kernel_y) {
    const std::int64_t y = output_y * spec_.vertical.stride - spec_.vertical.padding + kernel_y;
    for (std::int64_t kernel_x = 0; kernel_x < spec_.horizontal.kernel; ++kernel_x, patch += spec_.channels) {
      const std::int64_t x = output_x * spec_.horizontal.stride - spec_.horizontal.padding + kernel_x;
      if (y < 0 || y >= spec_.height || x < 0 || x >= spec_.width)
        std::fill_n(patch, spec_.channels, 0.0f);
      else
        std::copy_n(image + (y * spec_.width + x) * spec_.channels, spec_.channels, patch);
    }
  }
}

Strips::Strips(const ConvolutionSpec& spec)
    : spec_(spec),
      output_height_(spec.vertical.outputs(spec.height)),
      output_width_(spec.horizontal.outputs(spec.width)),
      group_inputs_(spec.channels / spec.groups),
      group_outputs_(spec.output_channels / spec.groups) {}

std::int64_t Strips::taps(std::int64_t phase) const {
  return std::max<std::int64_t>(0, (spec_.vertical.kernel - phase + spec_.vertical.stride - 1) / spec_.vertical.stride);
}

/// Returns the first row of a phase. Row y has phase (y + padding) mod stride: that of the kernel rows that can lie on
/// it.
std::int64_t Strips::first_row(std::int64_t phase) const {
  const std::int64_t stride = spec_.vertical.stride;
  return (phase + stride - spec_.vertical.padding % stride) % stride;
}

std::int64_t Strips::rows_per_image(std::int64_t phase) const {
  const std::int64_t stride = spec_.vertical.stride;
  return std::max<std::int64_t>(0, (spec_.height - first_row(phase) + stride - 1) / stride);
}

Strips::Place Strips::place(const Part& part, std::int64_t row) const {
  const std::int64_t per_image = rows_per_image(part.phase);
  return {row / per_image, first_row(part.phase) + row % per_image * spec_.vertical.stride};
}

/// Calls body(offset in the input, offset in the window, floats).
template <class Body>
void Strips::for_each_window_run(const Part& part, const Place& place, std::int64_t x, const Body& body) const {
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
void Strips::for_each_column_run(const Part& part, const Place& place, std::int64_t x, const Body& body) const {
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
void Strips::for_each_weight_run(const Part& part, const Body& body) const {
  for (std::int64_t tap = 0; tap < taps(part.phase); ++tap)
    for (std::int64_t in = 0; in < window_floats(); ++in) {
      const std::int64_t kernel_y = part.phase + tap * spec_.vertical.stride;
      body((kernel_y * window_floats() + in) * spec_.output_channels + part.group * group_outputs_,
           in * column_floats(part.phase) + tap * group_outputs_, group_outputs_);
    }
}

/// Calls body(place, x, memory of the pixel) for every pixel of the rows, whose memory lies one behind the other.
template <class T, class Body>
void Strips::for_each_pixel(const Part& part, const Rows& rows, std::int64_t floats, T* pixels,
                            const Body& body) const {
  for_each_piece(rows.count(), 1, [&](std::int64_t begin, std::int64_t end) {
    T* pixel = pixels + begin * pixels_per_row() * floats;
    for (std::int64_t row = begin; row < end; ++row) {
      const Place here = place(part, rows.begin + row);
      for (std::int64_t x = 0; x < pixels_per_row(); ++x, pixel += floats) body(here, x, pixel);
    }
  });
}

void Strips::gather_windows(const Part& part, const Rows& rows, const float* input, float* windows) const {
  for_each_pixel(part, rows, window_floats(), windows, [&](const Place& here, std::int64_t x, float* window) {
    std::fill_n(window, window_floats(), 0.0f);
    for_each_window_run(part, here, x, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      std::copy_n(input + from, count, window + to);
    });
  });
}

void Strips::add_windows(const Part& part, const Rows& rows, const float* windows, float* input) const {
  for_each_pixel(part, rows, window_floats(), windows, [&](const Place& here, std::int64_t x, const float* window) {
    for_each_window_run(part, here, x, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
      add(window + from, count, input + to);
    });
  });
}

void Strips::gather_columns(const Part& part, const Rows& rows, const float* output, float* columns) const {
  const std::int64_t floats = column_floats(part.phase);
  for_each_pixel(part, rows, floats, columns, [&](const Place& here, std::int64_t x, float* column) {
    std::fill_n(column, floats, 0.0f);
    for_each_column_run(part, here, x, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      std::copy_n(output + from, count, column + to);
    });
  });
}

void Strips::add_columns(const Part& part, const Rows& rows, const float* columns, float* output) const {
  const std::int64_t floats = column_floats(part.phase);
  constexpr std::size_t kFewColumns = 8;
  // Rows share output rows, so the threads share out the output columns.
  for_each_piece(pixels_per_row(), kFewColumns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const Place here = place(part, row);
      const float* column = columns + ((row - rows.begin) * pixels_per_row() + begin) * floats;
      for (std::int64_t x = begin; x < end; ++x, column += floats)
        for_each_column_run(part, here, x, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
          add(column + from, count, output + to);
        });
    }
  });
}

void Strips::gather_weights(const Part& part, const float* weights, float* map) const {
  for_each_weight_run(part, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
    std::copy_n(weights + from, count, map + to);
  });
}

void Strips::scatter_weights(const Part& part, const float* map, float* weights) const {
  for_each_weight_run(part, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
    std::copy_n(map + from, count, weights + to);
  });
}

}  // namespace dragonn::kernels
