// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gradient/tile_transform.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <array>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include <hwy/highway.h>

#include "kernels/devices.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/tile_transform.h"
#include "kernels/partial_sums-inl.h"
#include "kernels/pieces.h"

#ifndef DRAGONN_TILE_FACTOR  // once, not per instruction set
#define DRAGONN_TILE_FACTOR
namespace dragonn::kernels::detail {

/// A factor, whose rows are `stride` floats apart.
struct TileFactor {
  const float* data;
  std::size_t stride;
};

}  // namespace dragonn::kernels::detail
#endif

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Computes [rows, columns] = a [rows, inner] * b [inner, columns]. Every element is a sum in the order of `inner`.
HWY_INLINE void multiply_tiles(const TileFactor& a, const TileFactor& b, std::size_t rows, std::size_t inner,
                               std::size_t columns, float* out, std::size_t stride) {
  for_each_element(columns, [&](auto d, std::size_t column) HWY_ATTR {
    std::size_t row = 0;
    for (; row + 4 <= rows; row += 4) {  // four sums at a time hide the latency of an addition
      const float* const x = a.data + row * a.stride;
      auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
      for (std::size_t i = 0; i < inner; ++i) {
        const auto y = hn::LoadU(d, b.data + i * b.stride + column);
        sum0 = hn::Add(sum0, hn::Mul(hn::Set(d, x[i]), y));
        sum1 = hn::Add(sum1, hn::Mul(hn::Set(d, x[a.stride + i]), y));
        sum2 = hn::Add(sum2, hn::Mul(hn::Set(d, x[2 * a.stride + i]), y));
        sum3 = hn::Add(sum3, hn::Mul(hn::Set(d, x[3 * a.stride + i]), y));
      }
      float* const target = out + row * stride + column;
      hn::StoreU(sum0, d, target);
      hn::StoreU(sum1, d, target + stride);
      hn::StoreU(sum2, d, target + 2 * stride);
      hn::StoreU(sum3, d, target + 3 * stride);
    }
    for (; row < rows; ++row) {
      auto sum = hn::Zero(d);
      for (std::size_t i = 0; i < inner; ++i)
        sum =
            hn::Add(sum, hn::Mul(hn::Set(d, a.data[row * a.stride + i]), hn::LoadU(d, b.data + i * b.stride + column)));
      hn::StoreU(sum, d, out + row * stride + column);
    }
  });
}

/// Computes left * tile * right of a tile of this matrix, for square factors.
void TransformTile(const float* tile, const TiledMatrix& matrix, const float* left, const float* right, float* scratch,
                   float* transformed) {
  const std::size_t rows = matrix.tile_rows, columns = matrix.tile_columns;
  multiply_tiles({tile, matrix.columns}, {right, columns}, rows, columns, columns, scratch, columns);
  multiply_tiles({left, rows}, {scratch, columns}, rows, rows, columns, transformed, matrix.columns);
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace detail {
HWY_EXPORT(TransformTile);
}  // namespace detail

namespace {

double cosine(std::size_t points, std::size_t k, std::size_t i) {
  const auto n = static_cast<double>(points);
  const double angle = std::numbers::pi * static_cast<double>((2 * i + 1) * k) / (2 * n);
  return std::sqrt((k == 0 ? 1 : 2) / n) * std::cos(angle);
}

void transform_cpu(View<const float> values, std::span<const TiledMatrix> matrices, const CosineBases& bases,
                   TransformDirection direction, View<float> transformed) {
  const bool is_forward = direction == TransformDirection::kForward;
  for_each_piece(values.size(), kMinPiece, [&](std::size_t, std::size_t begin, std::size_t end) {
    std::array<float, kMaxTileSize> scratch;
    for_each_band(matrices, begin, end, [&](const TiledMatrix& matrix, std::size_t element, std::size_t) {
      const float* const left = bases.of(matrix.tile_rows, !is_forward);
      const float* const right = bases.of(matrix.tile_columns, is_forward);
      for (std::size_t tile = element; tile < element + matrix.columns; tile += matrix.tile_columns)
        HWY_DYNAMIC_DISPATCH(detail::TransformTile)
      (values.data() + tile, matrix, left, right, scratch.data(), transformed.data() + tile);
    });
  });
}

bool check_transform(View<const float> values, std::span<const TiledMatrix> matrices, const CosineBases&,
                     TransformDirection, View<float> transformed) {
  check_tiles("transform_tiles", matrices, values.size());
  DRAGONN_CHECK(transformed.size() == values.size(), "transform_tiles: {} elements into {}", values.size(),
                transformed.size());
  count_swept(values.size());
  return !values.empty();
}

}  // namespace

CosineBases::CosineBases(std::span<const TiledMatrix> matrices, const Device& device) {
  std::set<std::size_t> sides;
  for (const TiledMatrix& matrix : matrices) sides.insert({matrix.tile_rows, matrix.tile_columns});
  std::vector<float> bases;
  for (const std::size_t points : sides) {
    begins_[points] = static_cast<std::uint32_t>(bases.size());
    for (const bool transposed : {false, true})
      for (std::size_t row = 0; row < points; ++row)
        for (std::size_t column = 0; column < points; ++column)
          bases.push_back(static_cast<float>(transposed ? cosine(points, column, row) : cosine(points, row, column)));
  }
  bases_ = Buffer<float>(bases.size(), device);
  transfer(View<const float>(std::span<const float>(bases)), bases_.view());
}

constinit decltype(transform_tiles) transform_tiles("transform_tiles", transform_cpu, check_transform);

}  // namespace dragonn::kernels
#endif  // HWY_ONCE
