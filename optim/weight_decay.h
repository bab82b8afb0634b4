// SPDX-License-Identifier: MIT
/// WeightDecay: the decay coefficient of each part of the arena.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/parameter.h"
#include "core/settings.h"

namespace dragonn::optim {

/// Cuts the arena into ranges of one coefficient. Weights always decay; biases and normalization parameters do if the
/// setting `weight_decay_norm_bias` says so.
class WeightDecay {
 public:
  /// @param settings hold specs().  @param arena is laid out.
  WeightDecay(const Settings& settings, const ParameterArena& arena);

  /// Declares the settings weight_decay (with this default) and weight_decay_norm_bias (on).
  static SettingSpecs specs(double default_value);

  /// Returns whether anything in [offset, offset + size) decays.
  bool touches(std::size_t offset, std::size_t size) const;
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
    std::size_t begin = 0;
    std::size_t end = 0;
    float coefficient = 0;
  };
  std::vector<Range> ranges_;  ///< cover the arena; neighbours differ in their coefficient
};

}  // namespace dragonn::optim
