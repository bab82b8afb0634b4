// SPDX-License-Identifier: MIT
#include "layers/initializer.h"

#include <cmath>

namespace dragonn::layers {

Initializer Initializer::he_normal(std::int64_t fan) {
  return normal(std::sqrt(2.0 / static_cast<double>(fan)));
}

Initializer Initializer::xavier_uniform(std::int64_t fan_in, std::int64_t fan_out) {
  return uniform(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
}

Initializer Initializer::fan_in_uniform(std::int64_t fan_in) {
  return uniform(1.0 / std::sqrt(static_cast<double>(fan_in)));
}

void Initializer::fill(std::span<float> values, Rng& stream) const {
  for (float& value : values) {
    switch (kind_) {
      case Kind::kConstant:
        value = number_;
        break;
      case Kind::kNormal:
        value = number_ * stream.normal();
        break;
      case Kind::kUniform:
        value = number_ * (2.0f * stream.uniform() - 1.0f);
        break;
    }
  }
}

}  // namespace dragonn::layers
