// SPDX-License-Identifier: MIT
/// Shape: the extents of a dense tensor, outermost first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace dragonn {

/// Up to six extents. Activations of images are [batch, height, width, channels] (NHWC).
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(std::span<const std::int64_t> extents);

  std::size_t rank() const { return rank_; }
  /// Returns the extent of one axis. @throws ShapeError if there is no such axis.
  std::int64_t operator[](std::size_t axis) const;
  /// Returns the product of the extents; 1 for rank 0.
  std::size_t size() const;
  std::span<const std::int64_t> extents() const { return {extents_.data(), rank_}; }
  /// Returns this shape with another outermost extent.
  Shape with_batch(std::int64_t batch) const;

  /// Returns the shape as text: "[32, 3, 3, 16]".
  std::string to_string() const;
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  std::size_t rank_ = 0;
};

}  // namespace dragonn
