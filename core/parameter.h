// SPDX-License-Identifier: MIT
/// Parameter and ParameterArena: all parameters of a model in one flat array, all gradients in another.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/shape.h"

namespace dragonn {

/// The use of a parameter. Weight decay may spare biases and normalization. A hidden matrix is the weight [outputs,
/// inputs] of a linear map from features of one layer to features of the next: layers lie before it and behind it.
/// Muon updates those; kWeight is any other weight.
enum class ParameterRole { kWeight, kHiddenMatrix, kBias, kNormalization };

/// Returns whether the role is a weight's: neither a bias's nor normalization's.
constexpr bool is_weight(ParameterRole role) {
  return role == ParameterRole::kWeight || role == ParameterRole::kHiddenMatrix;
}

/// A named slice of the arena.
struct Parameter {
  std::string name;  ///< "stage1.block0.conv1.weight"
  Shape shape;
  ParameterRole role = ParameterRole::kWeight;
  std::size_t offset = 0;  ///< index of the first element in the arena
  std::size_t size = 0;

  /// Returns whether the tensor has fewer than two dimensions, like biases and normalization scales.
  bool is_vector() const { return shape.rank() < 2; }
};

/// Index of a parameter in the order of declaration (first layer first).
using ParameterId = std::size_t;

/// Declares parameters in forward order, then lays them out once: first all tensors of two or more dimensions, last
/// declared first (the order in which backward finishes them), then all vectors, last declared first. Nothing is
/// padded, so the matrices are a contiguous prefix, the model is contiguous, and a bucket of neighbours is a slice.
class ParameterArena {
 public:
  explicit ParameterArena(Device device = {}) : device_(device) {}

  /// Declares a parameter. @throws Error after allocate(), or when the name is taken.
  ParameterId declare(std::string name, const Shape& shape, ParameterRole role);
  /// Computes the layout and allocates values and gradients, both zero.
  void allocate();
  /// Computes the layout, sizes and offsets, without allocating: for a dry run.
  void lay_out();

  /// All parameters, in declaration order.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Parameter& operator[](ParameterId id) const { return parameters_.at(id); }
  /// The ids in layout order: ascending offset.
  const std::vector<ParameterId>& layout() const { return layout_; }

  std::size_t size() const { return size_; }
  /// Returns the number of elements in the prefix that holds the matrices.
  std::size_t matrix_size() const { return matrix_size_; }

  View<float> values() { return values_.view(); }
  View<const float> values() const { return values_.view(); }
  View<float> gradients() { return gradients_.view(); }
  View<const float> gradients() const { return gradients_.view(); }
  View<float> value(ParameterId id) { return values().subview((*this)[id].offset, (*this)[id].size); }
  View<float> gradient(ParameterId id) { return gradients().subview((*this)[id].offset, (*this)[id].size); }

 private:
  Device device_;
  std::vector<Parameter> parameters_;
  std::vector<ParameterId> layout_;
  std::size_t size_ = 0;
  std::size_t matrix_size_ = 0;
  bool laid_out_ = false;
  Buffer<float> values_;
  Buffer<float> gradients_;
};

}  // namespace dragonn
