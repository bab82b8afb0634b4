// SPDX-License-Identifier: MIT
/// The parts that optimizers share: arrays of one float per parameter, and the weight decay of each part of the arena.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "core/archive.h"
#include "core/buffer.h"
#include "core/parameter.h"
#include "core/settings.h"
#include "kernels/devices.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::optim {

/// Makes an array of zeros for the parameters of the arena, on its device.
inline Buffer<float> make_state(const ParameterArena& arena) {
  Buffer<float> state(arena.size(), arena.values().device());
  kernels::fill(0, state.view());
  return state;
}

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
