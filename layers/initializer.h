// SPDX-License-Identifier: MIT
/// Initializer: how a parameter's first values are drawn.
#pragma once

#include <cstdint>
#include <span>

#include "core/rng.h"

namespace dragonn::layers {

/// A distribution with one number.
class Initializer {
 public:
  static Initializer constant(float value) { return {Kind::kConstant, value}; }
  /// Normal with mean 0.
  static Initializer normal(double deviation) { return {Kind::kNormal, static_cast<float>(deviation)}; }
  /// Uniform in [-bound, bound).
  static Initializer uniform(double bound) { return {Kind::kUniform, static_cast<float>(bound)}; }
  /// Normal with variance 2 / fan: keeps the variance through layers with ReLU. `fan` is the number of inputs (or
  /// outputs) of one unit. Source: He et al., arXiv:1502.01852, equations 10 and 14.
  static Initializer he_normal(std::int64_t fan);
  /// Uniform with variance 2 / (fan_in + fan_out). Source: Glorot and Bengio, AISTATS 2010, equation 16.
  static Initializer xavier_uniform(std::int64_t fan_in, std::int64_t fan_out);
  /// Uniform in +-1 / sqrt(fan_in): what PyTorch gives linear layers and biases by default.
  static Initializer fan_in_uniform(std::int64_t fan_in);

  /// Fills `values` from the stream.
  void fill(std::span<float> values, Rng& stream) const;

 private:
  enum class Kind { kConstant, kNormal, kUniform };
  Initializer(Kind kind, float number) : kind_(kind), number_(number) {}

  Kind kind_;
  float number_;
};

}  // namespace dragonn::layers
