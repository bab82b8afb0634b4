// SPDX-License-Identifier: MIT
#include "optim/state.h"

namespace dragonn::optim {

WeightDecay::WeightDecay(const Settings& settings, const ParameterArena& arena) {
  const auto decay = static_cast<float>(settings.number("weight_decay"));
  const bool all = settings.flag("weight_decay_norm_bias");
  for (const ParameterId id : arena.layout()) {
    const Parameter& parameter = arena[id];
    const float coefficient = all || parameter.role == ParameterRole::kWeight ? decay : 0.0f;
    const std::size_t end = parameter.offset + parameter.size;
    if (!ranges_.empty() && ranges_.back().coefficient == coefficient) {
      ranges_.back().end = end;
    } else {
      ranges_.push_back({parameter.offset, end, coefficient});
    }
  }
}

SettingSpecs WeightDecay::specs(double default_value) {
  return {{"weight_decay", default_value, "weight decay coefficient, per step and unit of learning rate", 0.0},
          {"weight_decay_norm_bias", true,
           "true: biases and normalization parameters decay, too, as in most papers' code"}};
}

bool WeightDecay::touches(std::size_t offset, std::size_t size) const {
  bool any = false;
  for_ranges(offset, size, [&](std::size_t, std::size_t, float coefficient) { any = any || coefficient != 0; });
  return any;
}

}  // namespace dragonn::optim
