// SPDX-License-Identifier: MIT
/// Tensor: contiguous float32 values with a shape, on one device.
#pragma once

#include "core/buffer.h"
#include "core/shape.h"

namespace dragonn {

/// A tensor that owns its memory. It is move only: copies of activations are never wanted silently.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const Shape& shape, const MemoryPlace& place = {}) : shape_(shape), buffer_(shape.size(), place) {}

  /// Changes the shape; the content is undefined afterwards. Allocates only when the tensor outgrows its memory.
  void reshape_discard(const Shape& shape) {
    shape_ = shape;
    buffer_.resize_discard(shape.size());
  }

  const Shape& shape() const { return shape_; }
  std::size_t size() const { return buffer_.size(); }
  const Device& device() const { return buffer_.device(); }
  View<float> view() { return buffer_.view(); }
  View<const float> view() const { return buffer_.view(); }
  std::span<float> host() { return buffer_.host(); }
  std::span<const float> host() const { return buffer_.host(); }

 private:
  Shape shape_;
  Buffer<float> buffer_;
};

}  // namespace dragonn
