// SPDX-License-Identifier: MIT
/// OuterParameters: the parameters at the last synchronization, and the optimizer that moves them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/archive.h"
#include "core/buffer.h"
#include "core/parameter.h"
#include "exchange/gradient_exchange.h"
#include "kernels/gradient/gradient_pass.h"
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
  /// Returns theta0 as keep() took it: [arena].
  View<const float> values() const { return kept_.view(); }
  /// Moves the arena's parameters theta back to theta0. Returns the pseudo-gradient theta0 - theta, which lies where
  /// the arena's gradients did.
  View<const float> take_change();
  /// Collective. Scales each tensor of this rank's pseudo-gradient, which lies where take_change() left it, by
  /// min(1, median over ranks of its norms / own norm). The median of an even number is the lower of the middle two. A
  /// tensor whose norm is not finite stays as it is, for the check of the exchange. 4 (P-1) bytes per tensor in
  /// ceil(log2 P) messages, or P-1 if they are large (Communicator::kSmallBlock).
  void clip_change(comm::Communicator& communicator);
  /// Steps from theta0, where take_change() left the arena's parameters, by the means of the exchanged sums.
  /// @param step counts the outer steps from 0.
  void step(std::span<const exchange::BucketSum> sums, double learning_rate, std::uint64_t step);

  /// Saves and restores the optimizer. theta0 is what the arena has after a step.
  void save(Archive& archive, const std::string& prefix) const { optimizer_->save(archive, prefix); }
  void load(const Archive& archive, const std::string& prefix) { optimizer_->load(archive, prefix); }
  /// Saves and restores theta, the arena's parameters in the middle of a round, in one field. Restoring keeps those
  /// that the arena had as theta0.
  void save_inner(Archive& archive, const std::string& field) const;
  void load_inner(const Archive& archive, const std::string& field);

 private:
  ParameterArena& arena_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Buffer<float> kept_;                   // [arena]
  kernels::PassResult scaling_;          // of no use besides
  std::vector<float> norms_, of_ranks_;  // by tensor, and by rank and tensor
  std::vector<float> of_tensor_;         // by rank
};

}  // namespace dragonn::trainer
