// SPDX-License-Identifier: MIT
/// OuterParameters: the parameters that all ranks share, and the optimizer that moves them.
#pragma once

#include <cstdint>
#include <functional>
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
#include "trainer/update/update_scheme.h"

namespace dragonn::trainer {

/// Makes an arena with the same tensors on the same device, all of whose values are 0.
ParameterArena arena_like(const ParameterArena& other);

/// Keeps theta0, the parameters that all ranks share, and the outer optimizer, which moves them by what the ranks' own
/// steps have changed. theta are a rank's own, the inner ones. Both may be exchanged in parts: lists of tensors.
/// Source: DiLoCo, arXiv:2311.08105, algorithm 1, and Streaming DiLoCo, arXiv:2501.18512. Local; 2 n floats besides the
/// optimizer's.
class OuterParameters {
 public:
  using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(ParameterArena&)>;
  using Tensors = std::span<const ParameterId>;

  /// @param inner theta; outlives this object.  @param make_optimizer makes it for an arena of the same layout.
  OuterParameters(ParameterArena& inner, const MakeOptimizer& make_optimizer);

  /// Takes theta as theta0.
  void keep();
  /// Returns theta0: [arena].
  View<const float> values() const { return outer_.values(); }
  /// Returns theta0 and the outer optimizer.
  SharedModel model() { return {&outer_, optimizer_.get()}; }
  /// Computes the pseudo-gradient theta0 - theta of these tensors. Returns it in an arena of its own, whose other parts
  /// are undefined: [arena], the same memory until the next call. theta may change meanwhile.
  View<const float> take_change(Tensors tensors);
  /// Collective. Scales each of these tensors of this rank's pseudo-gradient by min(1, median over ranks of its norms /
  /// own norm). The median of an even number is the lower of the middle two. A tensor whose norm is not finite stays as
  /// it is, for the check of the exchange. 4 (P-1) bytes per tensor in ceil(log2 P) messages, or P-1 if they are large
  /// (Communicator::kSmallBlock).
  void clip_change(comm::Communicator& communicator, Tensors tensors);
  /// Scales these tensors of this rank's pseudo-gradient.
  void scale_change(Tensors tensors, float factor);
  /// Moves theta0 by the means of the exchanged sums. Neither reads nor writes theta.
  /// @param step counts the outer steps from 0.
  void step(std::span<const exchange::BucketSum> sums, double learning_rate, std::uint64_t step);
  /// Moves theta of these tensors towards theta0: theta <- mix theta + (1 - mix) theta0. @param mix in [0, 1].
  void give(Tensors tensors, float mix);

  /// Saves and restores the optimizer.
  void save(Archive& archive, const std::string& prefix) const { optimizer_->save(archive, prefix); }
  void load(const Archive& archive, const std::string& prefix) { optimizer_->load(archive, prefix); }
  /// Saves and restores theta in one field. Restoring keeps the parameters that the inner arena had as theta0.
  void save_inner(Archive& archive, const std::string& field) const;
  void load_inner(const Archive& archive, const std::string& field);

 private:
  ParameterArena& inner_;
  ParameterArena outer_;  // its gradients are the pseudo-gradient
  std::unique_ptr<optim::Optimizer> optimizer_;
  Buffer<float> scaled_;                 // [largest tensor], once a change is scaled
  kernels::PassResult scaling_;          // of no use besides
  std::vector<float> norms_, of_ranks_;  // by tensor, and by rank and tensor
  std::vector<float> of_tensor_;         // by rank
};

}  // namespace dragonn::trainer
