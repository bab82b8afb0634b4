// SPDX-License-Identifier: MIT
#include "core/parameter.h"

#include <algorithm>
#include <utility>

namespace dragonn {

ParameterId ParameterArena::declare(std::string name, const Shape& shape, ParameterRole role) {
  DRAGONN_CHECK(!laid_out_, "parameter {} declared after the arena was laid out", name);
  DRAGONN_CHECK(std::ranges::none_of(parameters_, [&](const Parameter& other) { return other.name == name; }),
                "two parameters are named {}", name);
  parameters_.push_back({std::move(name), shape, role, 0, shape.size()});
  return parameters_.size() - 1;
}

void ParameterArena::lay_out() {
  if (laid_out_) return;
  laid_out_ = true;
  for (bool vectors : {false, true}) {
    if (vectors) matrix_size_ = size_;
    for (ParameterId id = parameters_.size(); id-- > 0;) {
      Parameter& parameter = parameters_[id];
      if (parameter.is_vector() != vectors) continue;
      parameter.offset = size_;
      size_ += parameter.size;
      layout_.push_back(id);
    }
  }
}

void ParameterArena::allocate() {
  lay_out();
  values_ = Buffer<float>(size_, device_);
  gradients_ = Buffer<float>(size_, device_);
  if (device_.is_cpu()) {
    std::ranges::fill(values_.host(), 0.0f);
    std::ranges::fill(gradients_.host(), 0.0f);
  }
}

}  // namespace dragonn
