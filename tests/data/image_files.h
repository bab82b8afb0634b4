// SPDX-License-Identifier: MIT
/// Writes JPEG and PNG files for tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs FILE
#include <cstdlib>
#include <filesystem>
#include <jpeglib.h>
#include <png.h>
#include <vector>

#include "tests/data/dataset_fixture.h"

namespace dragonn::data {

/// Smooth pixels that differ by channel and by `seed`, [height, width, channels].
inline Bytes smooth_pixels(int height, int width, int channels, int seed = 0) {
  Bytes pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        pixels.push_back(static_cast<std::uint8_t>(127 + 120 * std::sin(0.21 * x * (c + 1) + 0.13 * y + seed)));
      }
    }
  }
  return pixels;
}

/// @param channels 1: grey, 3: RGB, 4: CMYK.
inline Bytes jpeg_bytes(const Bytes& pixels, int height, int width, int channels = 3, bool progressive = false) {
  jpeg_error_mgr errors;
  jpeg_compress_struct info{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 95, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < height; ++y) {
    auto* row = const_cast<std::uint8_t*>(pixels.data() + static_cast<std::ptrdiff_t>(y) * width * channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  Bytes bytes(memory, memory + size);
  std::free(memory);
  return bytes;
}

/// @param color PNG_COLOR_TYPE_GRAY, _RGB or _RGB_ALPHA.  @param pixels big-endian if `depth` is 16.
inline Bytes png_bytes(Bytes pixels, int height, int width, int color, int depth = 8, bool interlaced = false) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  Bytes bytes;
  png_set_write_fn(
      png, &bytes,
      [](png_structp writer, png_bytep data, std::size_t count) {
        auto* const out = static_cast<Bytes*>(png_get_io_ptr(writer));
        out->insert(out->end(), data, data + count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), depth, color,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_bytep> rows;
  const std::size_t row_bytes = pixels.size() / static_cast<std::size_t>(height);
  for (int y = 0; y < height; ++y) rows.push_back(pixels.data() + static_cast<std::size_t>(y) * row_bytes);
  png_set_rows(png, info, rows.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

}  // namespace dragonn::data
