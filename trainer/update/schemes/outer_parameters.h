// SPDX-License-Identifier: MIT
/// OuterParameters: the parameters at the last synchronization, and the optimizer that moves them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/archive.h"
#include "core/buffer.h"
#include "core/parameter.h"
#include "exchange/gradient_exchange.h"
#include "optim/optimizer.h"

namespace dragonn::trainer {

/// Keeps theta0, the parameters that all ranks had at the last synchronization, and the outer optimizer, which moves
/// them by what the ranks' own steps have changed. Source: DiLoCo, arXiv:2311.08105, algorithm 1. Local; n floats
/// besides the optimizer's.
class OuterParameters {
 public:
  /// @param arena outlives this object.  @param optimizer of that arena.
  OuterParameters(ParameterArena& arena, std::unique_ptr<optim::Optimizer> optimizer);

  /// Takes the arena's parameters as theta0.
  void keep();
  /// Moves the arena's parameters theta back to theta0. Returns the pseudo-gradient theta0 - theta, which lies where
  /// the arena's gradients did.
  View<const float> take_change();
  /// Steps from theta0, where take_change() left the arena's parameters, by the means of the exchanged sums.
  /// @param step counts the outer steps from 0.
  void step(std::span<const exchange::BucketSum> sums, double learning_rate, std::uint64_t step);

  /// Saves and restores the optimizer. theta0 is what the arena has after a step.
  void save(Archive& archive, const std::string& prefix) const { optimizer_->save(archive, prefix); }
  void load(const Archive& archive, const std::string& prefix) { optimizer_->load(archive, prefix); }

 private:
  ParameterArena& arena_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Buffer<float> kept_;  // [arena]
};

}  // namespace dragonn::trainer
