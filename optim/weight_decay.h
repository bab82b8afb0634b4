// SPDX-License-Identifier: MIT
/// WeightDecay: the coefficient of weight decay, parameter by parameter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/parameter.h"
#include "core/settings.h"

namespace dragonn::optim {

/// Cuts the arena into ranges of one coefficient: that of the first of `weight_decay_rules` whose pattern matches the
/// parameter's name, else `weight_decay`, or 0 for biases and normalization without `weight_decay_norm_bias`.
class WeightDecay {
 public:
  /// @param settings have specs().  @param arena is laid out.  @throws ConfigError for rules that cannot be read, or
  /// that match no parameter.
  WeightDecay(const Settings& settings, const ParameterArena& arena);

  /// Adds the settings weight_decay (with this default), weight_decay_norm_bias (on) and weight_decay_rules (none) to
  /// an optimizer's own.
  static SettingSpecs specs(double default_value, SettingSpecs own);

  /// Returns whether anything in [offset, offset + size) decays.
  bool touches(std::size_t offset, std::size_t size) const {
    bool any = false;
    for_ranges(offset, size, [&](std::size_t, std::size_t, float coefficient) { any = any || coefficient != 0; });
    return any;
  }
  /// Calls body(offset, size, coefficient) for the ranges that make up [offset, offset + size), in order.
  template <class Body>
  void for_ranges(std::size_t offset, std::size_t size, const Body& body) const {
    const std::size_t end = offset + size;
    for (const Range& range : ranges_) {
      const std::size_t first = std::max(offset, range.begin), last = std::min(end, range.end);
      if (first < last) body(first, last - first, range.coefficient);
    }
  }

 private:
  struct Range {
    std::size_t begin = 0, end = 0;
    float coefficient = 0;
  };
  std::vector<Range> ranges_;  ///< cover the arena; neighbours differ in their coefficient
};

}  // namespace dragonn::optim
