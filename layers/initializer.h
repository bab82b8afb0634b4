// SPDX-License-Identifier: MIT
/// Initializer: the distribution of a parameter's first values.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "core/rng.h"

namespace dragonn::layers {

/// A distribution with one number.
class Initializer {
 public:
  static Initializer constant(float value) { return {Kind::kConstant, value}; }
  /// Normal distribution with mean 0.
  static Initializer normal(double deviation) { return {Kind::kNormal, static_cast<float>(deviation)}; }
  /// Uniform distribution in [-bound, bound).
  static Initializer uniform(double bound) { return {Kind::kUniform, static_cast<float>(bound)}; }
  /// Normal distribution with variance 2 / fan, which keeps the variance through layers with ReLU. `fan` is the number
  /// of inputs (or outputs) of one unit. Source: He et al., arXiv:1502.01852, equations 10 and 14.
  static Initializer he_normal(std::int64_t fan) { return normal(std::sqrt(2.0 / static_cast<double>(fan))); }
  /// Uniform distribution with variance 2 / (fan_in + fan_out). Source: Glorot and Bengio, AISTATS 2010, equation 16.
  static Initializer xavier_uniform(std::int64_t fan_in, std::int64_t fan_out) {
    return uniform(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
  }
  /// Uniform distribution in +-1 / sqrt(fan_in): PyTorch's default for linear layers and biases.
  static Initializer fan_in_uniform(std::int64_t fan_in) {
    return uniform(1.0 / std::sqrt(static_cast<double>(fan_in)));
  }

  /// Fills `values` from the stream.
  void fill(std::span<float> values, Rng& stream) const {
    for (float& value : values)
      value = kind_ == Kind::kConstant ? number_
              : kind_ == Kind::kNormal ? number_ * stream.normal()
                                       : number_ * (2.0f * stream.uniform() - 1.0f);
  }

 private:
  enum class Kind { kConstant, kNormal, kUniform };
  Initializer(Kind kind, float number) : kind_(kind), number_(number) {}

  Kind kind_;
  float number_;
};

}  // namespace dragonn::layers
