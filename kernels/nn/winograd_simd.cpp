// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/winograd_simd.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <cstddef>
#include <cstdint>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/nn/winograd_simd.h"

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kWinogradBlock>;
using Vector = hn::Vec<D>;
constexpr std::size_t kLanes = hn::MaxLanes(D());
/// The floats of a transformed tile of a block, and the distance of its neighbour's.
constexpr std::size_t kTile = kWinogradPositions * kWinogradBlock;

/// Returns the place of a channel of the first tile in a transformed chunk, at position 0.
HWY_INLINE std::size_t place(std::size_t tiles, std::size_t channel) {
  return channel / kWinogradBlock * tiles * kTile + channel % kWinogradBlock;
}

/// The vectors of sums that a product keeps in registers; the rest holds factors.
constexpr std::size_t kSums = HWY_TARGET <= HWY_AVX3 ? 24 : 12;
/// The most vectors of a packed row of weights: a panel of columns that are computed together.
constexpr std::size_t kMaxVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;

/// Returns the vectors of a panel.
std::size_t panel_vectors(std::size_t columns) {
  std::size_t vectors = kMaxVectors;
  while (columns % (vectors * kLanes) != 0) vectors /= 2;
  return vectors;
}

/// The element of a matrix [rows, columns] packed by panels: [columns / panel, rows, panel].
struct Packing {
  std::size_t rows = 0, panel = 0;
  Packing(std::size_t rows_, std::size_t columns) : rows(rows_), panel(panel_vectors(columns) * kLanes) {}
  std::size_t at(std::size_t row, std::size_t column) const {
    return (column / panel * rows + row) * panel + column % panel;
  }
};

/// Stores G g G^T of 9 taps to the 16 positions, which are `size` floats apart. @param load load(tap).
template <class Load>
HWY_INLINE void expand_weights(const Load& load, std::size_t size, float* HWY_RESTRICT packed) {
  const D d;
  const auto half = hn::Set(d, 0.5f);
  Vector rows[4][3];  // G g
#pragma GCC unroll 3
  for (std::size_t x = 0; x < 3; ++x) {
    const auto g0 = load(x), g2 = load(6 + x);
    const auto even = hn::Mul(half, hn::Add(g0, g2)), odd = hn::Mul(half, load(3 + x));
    rows[0][x] = g0;
    rows[1][x] = hn::Add(even, odd);
    rows[2][x] = hn::Sub(even, odd);
    rows[3][x] = g2;
  }
#pragma GCC unroll 4
  for (std::size_t y = 0; y < 4; ++y, packed += 4 * size) {
    const auto even = hn::Mul(half, hn::Add(rows[y][0], rows[y][2])), odd = hn::Mul(half, rows[y][1]);
    hn::StoreU(rows[y][0], d, packed);
    hn::StoreU(hn::Add(even, odd), d, packed + size);
    hn::StoreU(hn::Sub(even, odd), d, packed + 2 * size);
    hn::StoreU(rows[y][2], d, packed + 3 * size);
  }
}

void transform_weights_forward(const float* weights, std::size_t inputs, std::size_t outputs, std::size_t block,
                               float* packed) {
  const D d;
  const Packing packing(inputs, outputs);
  for (std::size_t input = block * kWinogradBlock; input < (block + 1) * kWinogradBlock; ++input)
    for (std::size_t output = 0; output < outputs; output += kLanes) {
      const float* from = weights + input * outputs + output;
      expand_weights([&](std::size_t tap) HWY_ATTR { return hn::LoadU(d, from + tap * inputs * outputs); },
                     inputs * outputs, packed + packing.at(input, output));
    }
}

void transform_weights_backward(const float* weights, std::size_t inputs, std::size_t outputs, std::size_t block,
                                float* packed) {
  const D d;
  const Packing packing(outputs, inputs);
  float transposed[9][kWinogradBlock][kWinogradBlock];  // of 16 outputs and the block's inputs
  for (std::size_t first = 0; first < outputs; first += kWinogradBlock) {
    for (std::size_t tap = 0; tap < 9; ++tap)
      for (std::size_t input = 0; input < kWinogradBlock; ++input) {
        const float* from = weights + (tap * inputs + block * kWinogradBlock + input) * outputs + first;
        // The gradient of the input is a convolution with the taps in reverse order.
        for (std::size_t output = 0; output < kWinogradBlock; ++output)
          transposed[8 - tap][output][input] = from[output];
      }
    for (std::size_t output = 0; output < kWinogradBlock; ++output)
      for (std::size_t input = 0; input < kWinogradBlock; input += kLanes)
        expand_weights([&](std::size_t tap) HWY_ATTR { return hn::LoadU(d, transposed[tap][output] + input); },
                       inputs * outputs, packed + packing.at(first + output, block * kWinogradBlock + input));
  }
}

void transform_weights(const float* weights, std::size_t inputs, std::size_t outputs, std::size_t block, bool backward,
                       float* packed) {
  backward ? transform_weights_backward(weights, inputs, outputs, block, packed)
           : transform_weights_forward(weights, inputs, outputs, block, packed);
}

/// The place of a tile, going through a chunk in order.
class TileWalk {
 public:
  TileWalk(const WinogradImages& images, std::size_t tile) : images_(images) {
    const std::size_t across = static_cast<std::size_t>(images.tiles_across);
    image_ = static_cast<std::int64_t>(tile / images.tiles_per_image());
    down_ = static_cast<std::int64_t>(tile % images.tiles_per_image() / across);
    across_ = static_cast<std::int64_t>(tile % across);
  }
  void next() {
    if (++across_ < images_.tiles_across) return;
    across_ = 0;
    if (++down_ < images_.tiles_down) return;
    down_ = 0;
    ++image_;
  }
  std::int64_t row() const { return 2 * down_ + images_.first; }
  std::int64_t column() const { return 2 * across_ + images_.first; }
  bool has_row(std::int64_t y) const { return y >= 0 && y < images_.height; }
  bool has_column(std::int64_t x) const { return x >= 0 && x < images_.width; }
  /// The offset of a pixel. It may lie outside of the image.
  std::int64_t offset(std::int64_t y, std::int64_t x) const {
    return ((image_ * images_.height + y) * images_.width + x) * static_cast<std::int64_t>(images_.channels);
  }
  /// Fetches the pixels of the tile that many tiles ahead, which are about as many pixels ahead in memory as tiles
  /// consume. While products are computed, those of the next chunk come.
  HWY_INLINE void fetch_ahead(const float* data, std::size_t tiles, std::size_t channel) const {
    constexpr std::int64_t kPixels = 4;  // of a tile that its neighbours do not read first
    const auto channels = static_cast<std::int64_t>(images_.channels);
    const std::int64_t ahead = kPixels * (static_cast<std::int64_t>(tiles) + images_.width + across_);
    const float* first = data + offset(2 * down_, 0) + ahead * channels + static_cast<std::int64_t>(channel);
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kPixels; ++i) hwy::Prefetch(first + i * channels);
  }
  /// Fills the addresses of the kSide x kSide pixels of the tile; those outside of the image are `outside`.
  template <std::size_t kSide>
  HWY_INLINE void find_pixels(const float* data, const float* outside, const float* (&pixels)[kSide * kSide]) const {
    const auto channels = static_cast<std::int64_t>(images_.channels);
    bool columns[kSide];
    for (std::size_t j = 0; j < kSide; ++j) columns[j] = has_column(column() + static_cast<std::int64_t>(j));
    for (std::size_t i = 0; i < kSide; ++i) {
      const std::int64_t y = row() + static_cast<std::int64_t>(i);
      const bool inside = has_row(y);
      std::int64_t at = offset(y, column());
      for (std::size_t j = 0; j < kSide; ++j, at += channels)
        pixels[kSide * i + j] = inside && columns[j] ? data + at : outside;
    }
  }

 private:
  const WinogradImages& images_;
  std::int64_t image_, down_, across_;
};

void transform_input(const WinogradImages& images, const WinogradChunk& chunk, const float* input, const float* zeros,
                     float* transformed) {
  const D d;
  const float* pixels[16];
  TileWalk walk(images, chunk.begin);
  for (std::size_t tile = 0; tile < chunk.count(); ++tile, walk.next()) {
    walk.find_pixels<4>(input, zeros, pixels);
    for (std::size_t c = 0; c < images.channels; c += kLanes) {
      walk.fetch_ahead(input, chunk.count(), c);
      float* to = transformed + place(chunk.count(), c) + tile * kTile;
      Vector rows[4][4];  // B^T d, row by row
#pragma GCC unroll 4
      for (std::size_t x = 0; x < 4; ++x) {
        const auto d0 = hn::LoadU(d, pixels[x] + c), d1 = hn::LoadU(d, pixels[4 + x] + c);
        const auto d2 = hn::LoadU(d, pixels[8 + x] + c), d3 = hn::LoadU(d, pixels[12 + x] + c);
        rows[0][x] = hn::Sub(d0, d2);
        rows[1][x] = hn::Add(d1, d2);
        rows[2][x] = hn::Sub(d2, d1);
        rows[3][x] = hn::Sub(d1, d3);
      }
#pragma GCC unroll 4
      for (std::size_t y = 0; y < 4; ++y) {
        float* line = to + 4 * y * kWinogradBlock;
        hn::StoreU(hn::Sub(rows[y][0], rows[y][2]), d, line);
        hn::StoreU(hn::Add(rows[y][1], rows[y][2]), d, line + kWinogradBlock);
        hn::StoreU(hn::Sub(rows[y][2], rows[y][1]), d, line + 2 * kWinogradBlock);
        hn::StoreU(hn::Sub(rows[y][1], rows[y][3]), d, line + 3 * kWinogradBlock);
      }
    }
  }
}

/// Multiplies kRows rows of a position's matrix with a panel of kVectors vectors. @param left the first row's first
/// channel.
/// @param stride from a block of channels to the next.  @param column the panel's first column.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void multiply_rows(const float* HWY_RESTRICT left, std::size_t stride, const float* HWY_RESTRICT panel,
                              std::size_t inputs, std::size_t column, float* HWY_RESTRICT product) {
  const D d;
  Vector sums[kRows][kVectors];
#pragma GCC unroll 24
  for (std::size_t r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  for (std::size_t block = 0; block < inputs; block += kWinogradBlock, left += stride) {
    for (std::size_t c = 0; c < kWinogradBlock; ++c, panel += kVectors * kLanes) {
      Vector weights[kVectors];
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) weights[v] = hn::LoadU(d, panel + v * kLanes);
#pragma GCC unroll 24
      for (std::size_t r = 0; r < kRows; ++r) {
        const auto value = hn::Set(d, left[r * kTile + c]);
#pragma GCC unroll 4
        for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(value, weights[v], sums[r][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kVectors; ++v) {
    const std::size_t at = column + v * kLanes;
    float* to = product + at / kWinogradBlock * stride + at % kWinogradBlock;
#pragma GCC unroll 24
    for (std::size_t r = 0; r < kRows; ++r) hn::StoreU(sums[r][v], d, to + r * kTile);
  }
}

/// Multiplies all rows with a panel: blocks of kRows rows, then of half as many, and so on.
template <std::size_t kRows, std::size_t kVectors>
void multiply_panel(const float* left, std::size_t stride, const float* panel, std::size_t rows, std::size_t inputs,
                    std::size_t column, float* product) {
  for (; rows >= kRows; rows -= kRows, left += kRows * kTile, product += kRows * kTile)
    multiply_rows<kRows, kVectors>(left, stride, panel, inputs, column, product);
  if constexpr (kRows > 1) {
    if (rows > 0) multiply_panel<kRows / 2, kVectors>(left, stride, panel, rows, inputs, column, product);
  }
}

template <std::size_t kVectors>
void multiply_as(const float* transformed, const float* packed, std::size_t tiles, std::size_t inputs,
                 std::size_t outputs, float* product) {
  for (std::size_t position = 0; position < kWinogradPositions; ++position) {
    const std::size_t first = position * kWinogradBlock;
    for (std::size_t column = 0; column < outputs; column += kVectors * kLanes)
      multiply_panel<kSums / kVectors, kVectors>(transformed + first, tiles * kTile,
                                                 packed + (position * outputs + column) * inputs, tiles, inputs, column,
                                                 product + first);
  }
}

/// Calls body.operator()<n>() with n = vectors.
template <std::size_t kMax, class Body>
void specialize_vectors(std::size_t vectors, const Body& body) {
  if constexpr (kMax > 1) {
    if (vectors < kMax) return specialize_vectors<kMax / 2>(vectors, body);
  }
  body.template operator()<kMax>();
}

void multiply(const float* transformed, const float* packed, std::size_t tiles, std::size_t inputs, std::size_t outputs,
              float* product) {
  specialize_vectors<kMaxVectors>(panel_vectors(outputs), [&]<std::size_t kVectors>() {
    multiply_as<kVectors>(transformed, packed, tiles, inputs, outputs, product);
  });
}

void transform_output(const WinogradImages& images, const WinogradChunk& chunk, const float* product, const float* bias,
                      float* output) {
  const D d;
  const std::size_t channels = images.channels;
  TileWalk walk(images, chunk.begin);
  for (std::size_t tile = 0; tile < chunk.count(); ++tile, walk.next()) {
    const bool below = walk.has_row(walk.row() + 1), right = walk.has_column(walk.column() + 1);
    float* first = output + walk.offset(walk.row(), walk.column());
    const std::size_t line = static_cast<std::size_t>(images.width) * channels;
    for (std::size_t c = 0; c < channels; c += kLanes) {
      const float* from = product + place(chunk.count(), c) + tile * kTile;
      const auto shift = bias == nullptr ? hn::Zero(d) : hn::LoadU(d, bias + c);
      Vector upper[4], lower[4];  // A^T m
#pragma GCC unroll 4
      for (std::size_t j = 0; j < 4; ++j) {
        const auto m = [&](std::size_t y) HWY_ATTR { return hn::LoadU(d, from + (4 * y + j) * kWinogradBlock); };
        const auto m1 = m(1), m2 = m(2);
        upper[j] = hn::Add(m(0), hn::Add(m1, m2));
        lower[j] = hn::Sub(hn::Sub(m1, m2), m(3));
      }
      const auto left_of = [&](const Vector(&m)[4])
                               HWY_ATTR { return hn::Add(hn::Add(m[0], shift), hn::Add(m[1], m[2])); };
      const auto right_of = [&](const Vector(&m)[4])
                                HWY_ATTR { return hn::Add(hn::Sub(hn::Sub(m[1], m[2]), m[3]), shift); };
      hn::StoreU(left_of(upper), d, first + c);
      if (right) hn::StoreU(right_of(upper), d, first + channels + c);
      if (!below) continue;
      hn::StoreU(left_of(lower), d, first + line + c);
      if (right) hn::StoreU(right_of(lower), d, first + line + channels + c);
    }
  }
}

void transform_output_gradient(const WinogradImages& images, const WinogradChunk& chunk, const float* output_gradient,
                               const float* zeros, float* transformed) {
  const D d;
  const float* pixels[4];
  TileWalk walk(images, chunk.begin);
  for (std::size_t tile = 0; tile < chunk.count(); ++tile, walk.next()) {
    walk.find_pixels<2>(output_gradient, zeros, pixels);
    for (std::size_t c = 0; c < images.channels; c += kLanes) {
      walk.fetch_ahead(output_gradient, chunk.count(), c);
      float* to = transformed + place(chunk.count(), c) + tile * kTile;
      const auto y0 = hn::LoadU(d, pixels[0] + c), y1 = hn::LoadU(d, pixels[1] + c);
      const auto y2 = hn::LoadU(d, pixels[2] + c), y3 = hn::LoadU(d, pixels[3] + c);
      const Vector left[4] = {y0, hn::Add(y0, y2), hn::Sub(y0, y2), hn::Neg(y2)};
      const Vector right[4] = {y1, hn::Add(y1, y3), hn::Sub(y1, y3), hn::Neg(y3)};
#pragma GCC unroll 4
      for (std::size_t y = 0; y < 4; ++y) {
        float* line = to + 4 * y * kWinogradBlock;
        hn::StoreU(left[y], d, line);
        hn::StoreU(hn::Add(left[y], right[y]), d, line + kWinogradBlock);
        hn::StoreU(hn::Sub(left[y], right[y]), d, line + 2 * kWinogradBlock);
        hn::StoreU(hn::Neg(right[y]), d, line + 3 * kWinogradBlock);
      }
    }
  }
}

/// Adds the products of kRows channels of the inputs with kVectors vectors of channels of the outputs' gradients, over
/// all tiles. @param right the first vector's; the others are behind it in blocks at the distance `stride`.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void accumulate_block(const float* HWY_RESTRICT left, const float* HWY_RESTRICT right, std::size_t stride,
                                 std::size_t tiles, std::size_t outputs, float* HWY_RESTRICT sums) {
  const D d;
  const auto vector_at = [&](std::size_t v) {
    return v * kLanes / kWinogradBlock * stride + v * kLanes % kWinogradBlock;
  };
  Vector sum[kRows][kVectors];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::LoadU(d, sums + r * outputs + v * kLanes);
  for (std::size_t tile = 0; tile < tiles; ++tile, left += kTile, right += kTile) {
    Vector values[kVectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) values[v] = hn::LoadU(d, right + vector_at(v));
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(d, left[r]);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(factor, values[v], sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, sums + r * outputs + v * kLanes);
}

template <std::size_t kRows, std::size_t kVectors>
void accumulate_as(const float* transformed_input, const float* transformed_gradient, std::size_t tiles,
                   std::size_t inputs, std::size_t outputs, float* sums) {
  for (std::size_t position = 0; position < kWinogradPositions; ++position) {
    const float* left = transformed_input + position * kWinogradBlock;
    const float* right = transformed_gradient + position * kWinogradBlock;
    float* to = sums + position * inputs * outputs;
    for (std::size_t row = 0; row < inputs; row += kRows)
      for (std::size_t column = 0; column < outputs; column += kVectors * kLanes)
        accumulate_block<kRows, kVectors>(left + place(tiles, row), right + place(tiles, column), tiles * kTile, tiles,
                                          outputs, to + row * outputs + column);
  }
}

void accumulate(const float* transformed_input, const float* transformed_gradient, std::size_t tiles,
                std::size_t inputs, std::size_t outputs, float* sums) {
  constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;
  if (panel_vectors(outputs) == 1)
    accumulate_as<kManyRegisters ? 16 : 8, 1>(transformed_input, transformed_gradient, tiles, inputs, outputs, sums);
  else
    accumulate_as<kManyRegisters ? 8 : 4, 2>(transformed_input, transformed_gradient, tiles, inputs, outputs, sums);
}

void transform_weights_gradient(const float* sums, std::size_t groups, std::size_t inputs, std::size_t outputs,
                                std::size_t block, float* gradient) {
  const D d;
  const std::size_t size = inputs * outputs;
  const auto half = hn::Set(d, 0.5f);
  const std::size_t begin = block * kWinogradBlock * outputs, end = begin + kWinogradBlock * outputs;
  for (std::size_t at = begin; at < end; at += kLanes) {
    const auto total = [&](std::size_t position) HWY_ATTR {
      auto sum = hn::LoadU(d, sums + position * size + at);
      for (std::size_t group = 1; group < groups; ++group)
        sum = hn::Add(sum, hn::LoadU(d, sums + (group * kWinogradPositions + position) * size + at));
      return sum;
    };
    Vector rows[3][4];  // G^T u
    for (std::size_t x = 0; x < 4; ++x) {
      const auto u0 = total(x), u1 = total(4 + x), u2 = total(8 + x), u3 = total(12 + x);
      const auto even = hn::Mul(half, hn::Add(u1, u2));
      rows[0][x] = hn::Add(u0, even);
      rows[1][x] = hn::Mul(half, hn::Sub(u1, u2));
      rows[2][x] = hn::Add(even, u3);
    }
    for (std::size_t y = 0; y < 3; ++y) {
      const auto even = hn::Mul(half, hn::Add(rows[y][1], rows[y][2]));
      hn::StoreU(hn::Add(rows[y][0], even), d, gradient + (3 * y) * size + at);
      hn::StoreU(hn::Mul(half, hn::Sub(rows[y][1], rows[y][2])), d, gradient + (3 * y + 1) * size + at);
      hn::StoreU(hn::Add(even, rows[y][3]), d, gradient + (3 * y + 2) * size + at);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels::detail {

HWY_EXPORT(transform_weights);
HWY_EXPORT(transform_input);
HWY_EXPORT(multiply);
HWY_EXPORT(transform_output);
HWY_EXPORT(transform_output_gradient);
HWY_EXPORT(accumulate);
HWY_EXPORT(transform_weights_gradient);

void winograd_transform_weights(const float* weights, std::size_t inputs, std::size_t outputs, std::size_t block,
                                bool backward, float* packed) {
  HWY_DYNAMIC_DISPATCH(transform_weights)(weights, inputs, outputs, block, backward, packed);
}
void winograd_transform_input(const WinogradImages& images, const WinogradChunk& chunk, const float* input,
                              const float* zeros, float* transformed) {
  HWY_DYNAMIC_DISPATCH(transform_input)(images, chunk, input, zeros, transformed);
}
void winograd_multiply(const float* transformed, const float* packed, std::size_t tiles, std::size_t inputs,
                       std::size_t outputs, float* product) {
  HWY_DYNAMIC_DISPATCH(multiply)(transformed, packed, tiles, inputs, outputs, product);
}
void winograd_transform_output(const WinogradImages& images, const WinogradChunk& chunk, const float* product,
                               const float* bias, float* output) {
  HWY_DYNAMIC_DISPATCH(transform_output)(images, chunk, product, bias, output);
}
void winograd_transform_output_gradient(const WinogradImages& images, const WinogradChunk& chunk,
                                        const float* output_gradient, const float* zeros, float* transformed) {
  HWY_DYNAMIC_DISPATCH(transform_output_gradient)(images, chunk, output_gradient, zeros, transformed);
}
void winograd_accumulate(const float* transformed_input, const float* transformed_gradient, std::size_t tiles,
                         std::size_t inputs, std::size_t outputs, float* sums) {
  HWY_DYNAMIC_DISPATCH(accumulate)(transformed_input, transformed_gradient, tiles, inputs, outputs, sums);
}
void winograd_transform_weights_gradient(const float* sums, std::size_t groups, std::size_t inputs, std::size_t outputs,
                                         std::size_t block, float* gradient) {
  HWY_DYNAMIC_DISPATCH(transform_weights_gradient)(sums, groups, inputs, outputs, block, gradient);
}

}  // namespace dragonn::kernels::detail
#endif
