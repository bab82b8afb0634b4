// SPDX-License-Identifier: MIT
/// Winograd's convolution.
///
/// A tile is 2 x 2 outputs of a 3 x 3 convolution with strides of 1, and the 4 x 4 inputs that they read. With the
/// matrices B, G and A of F(2 x 2, 3 x 3) (Lavin and Gray, arXiv:1509.09308, section 4.1) a tile is A^T [(G g G^T) *
/// (B^T d B)] A, where * multiplies 16 elements one by one. Over channels each of these 16 positions is a matrix
/// product.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/winograd_convolution.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>
#include <vector>

#include <hwy/cache_control.h>
#include <hwy/highway.h>
#include <omp.h>

#include "core/error.h"
#include "kernels/nn/cpu_convolutions.h"
#include "kernels/nn/matrix_product.h"
#include "kernels/pieces.h"

#ifndef DRAGONN_WINOGRAD_TILES  // once for all instruction sets
#define DRAGONN_WINOGRAD_TILES
namespace dragonn::kernels {

/// The positions of a transformed tile.
constexpr std::size_t kWinogradPositions = 16;
/// The channels of a block: inputs and outputs have whole blocks.
constexpr std::size_t kWinogradBlock = 16;

/// Images [batch, height, width, channels] with a grid of tiles over them; tile (0, 0) begins at row and column
/// `first`.
struct WinogradImages {
  std::int64_t height = 0, width = 0;
  std::size_t channels = 0;
  std::int64_t first = 0;
  std::int64_t tiles_down = 0, tiles_across = 0;

  std::size_t tiles_per_image() const { return static_cast<std::size_t>(tiles_down * tiles_across); }
};

/// Neighbouring tiles, in the order of [batch, tiles_down, tiles_across].
struct WinogradChunk {
  std::size_t begin = 0, end = 0;
  std::size_t count() const { return end - begin; }
};

}  // namespace dragonn::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels {
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

/// Transforms the weights [3, 3, inputs, outputs] of a block of inputs to packed [positions, inputs, outputs]. With
/// `backward` the packed weights map outputs to inputs, [positions, outputs, inputs], as the gradient of the input
/// needs it.
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

/// Calls transform(load, to) for the kSide x kSide pixels of every tile and every vector of channels: load(i) reads the
/// vector of pixel i (pixels outside of the image are 0), and `to` is the place of the transformed tile. @param zeros
/// [channels] zeros.
template <std::size_t kSide, class Transform>
HWY_INLINE void for_each_tile(const WinogradImages& images, const WinogradChunk& chunk, const float* data,
                              const float* zeros, float* transformed, const Transform& transform) {
  const float* pixels[kSide * kSide];
  TileWalk walk(images, chunk.begin);
  for (std::size_t tile = 0; tile < chunk.count(); ++tile, walk.next()) {
    walk.find_pixels<kSide>(data, zeros, pixels);
    for (std::size_t c = 0; c < images.channels; c += kLanes) {
      walk.fetch_ahead(data, chunk.count(), c);
      transform([&](std::size_t i) HWY_ATTR { return hn::LoadU(D(), pixels[i] + c); },
                transformed + place(chunk.count(), c) + tile * kTile);
    }
  }
}

/// Computes B^T d B for the 4 x 4 pixels of every tile.
void transform_input(const WinogradImages& images, const WinogradChunk& chunk, const float* input, const float* zeros,
                     float* transformed) {
  for_each_tile<4>(images, chunk, input, zeros, transformed, [](const auto& load, float* to) HWY_ATTR {
    const D d;
    Vector rows[4][4];  // B^T d, row by row
#pragma GCC unroll 4
    for (std::size_t x = 0; x < 4; ++x) {
      const auto d0 = load(x), d1 = load(4 + x), d2 = load(8 + x), d3 = load(12 + x);
      rows[0][x] = hn::Sub(d0, d2);
      rows[1][x] = hn::Add(d1, d2);
      rows[2][x] = hn::Sub(d2, d1);
      rows[3][x] = hn::Sub(d1, d3);
    }
#pragma GCC unroll 4
    for (std::size_t y = 0; y < 4; ++y, to += 4 * kWinogradBlock) {
      hn::StoreU(hn::Sub(rows[y][0], rows[y][2]), d, to);
      hn::StoreU(hn::Add(rows[y][1], rows[y][2]), d, to + kWinogradBlock);
      hn::StoreU(hn::Sub(rows[y][2], rows[y][1]), d, to + 2 * kWinogradBlock);
      hn::StoreU(hn::Sub(rows[y][1], rows[y][3]), d, to + 3 * kWinogradBlock);
    }
  });
}

/// Computes A y A^T for the 2 x 2 pixels of every tile.
void transform_output_gradient(const WinogradImages& images, const WinogradChunk& chunk, const float* output_gradient,
                               const float* zeros, float* transformed) {
  for_each_tile<2>(images, chunk, output_gradient, zeros, transformed, [](const auto& load, float* to) HWY_ATTR {
    const D d;
    const auto y0 = load(0), y1 = load(1), y2 = load(2), y3 = load(3);
    const Vector left[4] = {y0, hn::Add(y0, y2), hn::Sub(y0, y2), hn::Neg(y2)};
    const Vector right[4] = {y1, hn::Add(y1, y3), hn::Sub(y1, y3), hn::Neg(y3)};
#pragma GCC unroll 4
    for (std::size_t y = 0; y < 4; ++y, to += 4 * kWinogradBlock) {
      hn::StoreU(left[y], d, to);
      hn::StoreU(hn::Add(left[y], right[y]), d, to + kWinogradBlock);
      hn::StoreU(hn::Sub(left[y], right[y]), d, to + 2 * kWinogradBlock);
      hn::StoreU(hn::Neg(right[y]), d, to + 3 * kWinogradBlock);
    }
  });
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

/// Multiplies at every position: product [tiles, outputs] = transformed [tiles, inputs] * packed [inputs, outputs].
void multiply(const float* transformed, const float* packed, std::size_t tiles, std::size_t inputs, std::size_t outputs,
              float* product) {
  specialize_vectors<kMaxVectors>(panel_vectors(outputs), [&]<std::size_t kVectors>() {
    multiply_as<kVectors>(transformed, packed, tiles, inputs, outputs, product);
  });
}

/// Computes A^T m A for every tile, plus the bias unless it is null; outputs outside of the image are left out.
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

/// Adds at every position the product of [inputs, tiles] and [tiles, outputs] to sums [positions, inputs, outputs].
void accumulate(const float* transformed_input, const float* transformed_gradient, std::size_t tiles,
                std::size_t inputs, std::size_t outputs, float* sums) {
  constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;
  if (panel_vectors(outputs) == 1)
    accumulate_as<kManyRegisters ? 16 : 8, 1>(transformed_input, transformed_gradient, tiles, inputs, outputs, sums);
  else
    accumulate_as<kManyRegisters ? 8 : 4, 2>(transformed_input, transformed_gradient, tiles, inputs, outputs, sums);
}

/// Computes G^T u G of a block of inputs, where u adds up `groups` sums in ascending order.
/// @param gradient [3, 3, inputs, outputs], of which that block is written.
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
}  // namespace dragonn::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace {

HWY_EXPORT(transform_weights);
HWY_EXPORT(transform_input);
HWY_EXPORT(multiply);
HWY_EXPORT(transform_output);
HWY_EXPORT(transform_output_gradient);
HWY_EXPORT(accumulate);
HWY_EXPORT(transform_weights_gradient);

constexpr std::int64_t kKernel = 3;

std::int64_t halves(std::int64_t outputs) {
  return (outputs + 1) / 2;
}

bool is_possible(const ConvolutionSpec& spec) {
  const auto fits = [](const Window& window) {
    return window.kernel == kKernel && window.stride == 1 && window.padding < kKernel;
  };
  const auto whole = [](std::int64_t channels) { return channels % kWinogradBlock == 0; };
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

/// Returns the floats of a transformed chunk: [channels / 16, tiles, positions, 16], so that a tile is written and read
/// in the order of memory, and neighbouring rows of a position's matrix lie at a distance that the compiler knows.
std::size_t transformed_floats(const Tiling& tiling, std::size_t channels) {
  return tiling.length() * channels * kWinogradPositions;
}

class WinogradConvolution final : public Plan {
 public:
  explicit WinogradConvolution(const ConvolutionSpec& spec)
      : spec_(spec),
        threads_(static_cast<std::size_t>(omp_get_max_threads())),
        inputs_(static_cast<std::size_t>(spec.channels)),
        outputs_(static_cast<std::size_t>(spec.output_channels)),
        height_(spec.output_height()),
        width_(spec.output_width()),
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
    const detail::Chunks pieces(inputs_ / kWinogradBlock, 1);
    detail::for_each_chunk(pieces, [&](std::size_t piece) {
      for (std::size_t block = pieces.begin(piece); block < pieces.end(piece); ++block) body(block);
    });
  }

  void convolve(const Tiling& tiling, const WinogradImages& read, const WinogradImages& written, const float* input,
                const float* weights, bool backward, const float* bias, float* output, float* scratch) const {
    float* packed = scratch;
    for_each_block([&](std::size_t block) {
      HWY_DYNAMIC_DISPATCH(transform_weights)(weights, inputs_, outputs_, block, backward, packed);
    });
    const std::size_t transformed = transformed_floats(tiling, read.channels);
    share_out(tiling.count(), transformed + transformed_floats(tiling, written.channels),
              [&](std::size_t number, std::size_t offset) {
                const WinogradChunk chunk = tiling.chunk(number);
                float* left = packed + sum_floats() + offset;
                float* product = left + transformed;
                HWY_DYNAMIC_DISPATCH(transform_input)(read, chunk, input, zeros_.data(), left);
                HWY_DYNAMIC_DISPATCH(multiply)(left, packed, chunk.count(), read.channels, written.channels, product);
                HWY_DYNAMIC_DISPATCH(transform_output)(written, chunk, product, bias, output);
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
                  HWY_DYNAMIC_DISPATCH(transform_input)(read, chunk, pass.inputs[0].data(), zeros_.data(), left);
                  HWY_DYNAMIC_DISPATCH(transform_output_gradient)
                  (written, chunk, pass.output_gradients[0].data(), zeros_.data(), right);
                  HWY_DYNAMIC_DISPATCH(accumulate)(left, right, chunk.count(), inputs_, outputs_, sum);
                }
              });
    for_each_block([&](std::size_t block) {
      HWY_DYNAMIC_DISPATCH(transform_weights_gradient)
      (sums, groups_, inputs_, outputs_, block, pass.parameter_gradients[0].data());
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
  const std::int64_t height = spec.output_height(), width = spec.output_width();
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
#endif
