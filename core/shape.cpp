// SPDX-License-Identifier: MIT
#include "core/shape.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"

namespace dragonn {

Shape::Shape(std::initializer_list<std::int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const std::int64_t> extents) : rank_(extents.size()) {
  if (rank_ > kMaxRank) throw ShapeError(fmt::format("a shape has at most {} axes, not {}", kMaxRank, rank_));
  std::ranges::copy(extents, extents_.begin());
  for (std::int64_t extent : extents)
    if (extent < 0) throw ShapeError(fmt::format("negative extent in shape {}", to_string()));
}

std::int64_t Shape::operator[](std::size_t axis) const {
  if (axis >= rank_) throw ShapeError(fmt::format("axis {} of shape {}", axis, to_string()));
  return extents_[axis];
}

std::size_t Shape::size() const {
  std::size_t product = 1;
  for (std::int64_t extent : extents()) product *= static_cast<std::size_t>(extent);
  return product;
}

Shape Shape::with_batch(std::int64_t batch) const {
  Shape result = *this;
  if (rank_ == 0) throw ShapeError("a shape without axes has no batch axis");
  result.extents_[0] = batch;
  return result;
}

std::string Shape::to_string() const {
  return fmt::format("[{}]", fmt::join(extents(), ", "));
}

}  // namespace dragonn
