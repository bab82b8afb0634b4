// SPDX-License-Identifier: MIT
/// WorkerGradient: gradients like those of a training run's workers, for measured exchanges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dragonn::bench {

/// The properties that make gradients look like those of training: workers share a component, which is drawn anew every
/// step, and layers differ in scale. Magnitudes have a heavier tail than normal ones (sums of two Laplace draws).
struct WorkerGradientRules {
  std::uint64_t seed = 1;
  double correlation = 0.5;  ///< of an element between two workers, in [0, 1]
};

class WorkerGradient {
 public:
  WorkerGradient(const WorkerGradientRules& rules, std::size_t numel, int rank);

  /// Overwrites `gradient`, [numel]; it is the same for the same seed, step and rank. Draws from a table, each piece
  /// from a place of its own: one pass over memory.
  void draw(std::uint64_t step, std::span<float> gradient) const;

 private:
  float scale_of(std::size_t piece) const;

  WorkerGradientRules rules_;
  std::size_t numel_;
  std::size_t piece_;  // elements that lie together in the table
  std::uint64_t rank_;
};

}  // namespace dragonn::bench
