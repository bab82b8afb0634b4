// SPDX-License-Identifier: MIT
/// Memory: error feedback. Keeps the values that were not sent, adds them to the next gradient, and settles after the
/// exchange.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "codec/values/value_codec.h"
#include "core/archive.h"
#include "core/component_traits.h"
#include "core/registry.h"
#include "core/sparse_vector.h"
#include "kernels/gradient/gradient_pass.h"

namespace dragonn::compress {

/// The outcome of an exchange for this rank's memory: the values that left, and those that came back.
struct Settlement {
  View<const std::uint32_t> contributed = {};  ///< entries of acc that left (ignored if contributed_all)
  bool contributed_all = false;                ///< a dense exchange: everything left, but for the remainder
  View<const float> remainder = {};            ///< what a dense exchange left behind, [n]; empty: nothing
  /// The contributed entries whose momentum stops, too (momentum masking). Absent: all of them.
  std::optional<View<const std::uint32_t>> masked = {};
  /// The share of the run's base learning rate (optimizer.learning_rate) that its decay has left.
  double rate_share = 1.0;
  const SparseVector* returned = nullptr;  ///< mass handed back, added after the zeroing; may be null
  /// The codec and code of acc, if all of it left in one: what the code decodes to has left, and `contributed` is
  /// ignored.
  const codec::ValueCodec* codec = nullptr;
  View<const std::byte> code = {};
};

/// The error feedback of one bucket of n elements. Every step calls compensate, then settle.
class Memory {
 public:
  virtual ~Memory() = default;

  /// Computes acc = memory (+) scale * gradient, and runs the sparsifier's request in the same sweep.
  /// `scale` is 1, a clip factor, or with the lr-folded accumulator also the learning rate.
  /// The result stays valid until the next call; that of a deferred request is for kernels::finish_pass(), before
  /// settle(). The gradient is not changed.
  virtual kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                          float scale) = 0;
  /// The acc of the last compensate, [n]; valid until settle().
  virtual View<const float> accumulated() const = 0;
  /// Makes the residual: acc less the values that left, plus the returned mass.
  virtual void settle(const Settlement& settlement) = 0;
  /// Takes the place of settle() when the exchange is given up on all ranks: no optimizer has stepped.
  virtual void abandon() {}
  /// Takes the place of settle(), too, behind a compensate whose request was `revertible`: the state is as before it.
  virtual void revert() {}
  /// Returns, for the exchanged sum of accs, dense or of entries, the sum of gradients that the optimizer takes, [n].
  /// Called once per settled exchange, with the same sum on every rank, so the memory may add it up to a state that is
  /// the same on every rank. A transform that compensate applies to a gradient (orthonormal, or the residual would
  /// weigh otherwise) is inverted here. Valid until the next call. Empty: the sum is used as it is.
  virtual View<const float> to_gradient(View<const float> /*dense*/, const SparseVector* /*entries*/) { return {}; }

  /// Returns the Euclidean norm of the residual, in double. O(n).
  virtual double residual_norm() const = 0;
  /// The residual after settle(), [n]; empty if this memory keeps none.
  virtual View<const float> residual() const = 0;

  virtual void save(Archive& archive, const std::string& prefix) const = 0;
  virtual void load(const Archive& archive, const std::string& prefix) = 0;
  /// Adds the state that a rank saved to this one: so the sums over ranks stay what they were when ranks share out the
  /// saved states among them. Exact up to the rounding of one addition per element, and for a memory without state
  /// exact.
  virtual void add(const Archive& archive, const std::string& prefix) = 0;
  /// Takes over state that is the same on all saved ranks, of which there were `workers`. Called once on each of the
  /// `world_size` new ranks.
  virtual void load_shared(const Archive& /*archive*/, const std::string& /*prefix*/, int /*workers*/,
                           int /*world_size*/) {}
};

struct MemoryEntry : RegistryEntry {
  static constexpr const char* kKind = "memory";
  std::size_t floats_per_element = 0;  ///< held from step to step, acc included; 0: no error feedback
  bool conserves = true;               ///< in each exchange the values that left and the residuals are acc together
  /// Whether acc is a difference from an estimate of the gradient, and to_gradient returns the sum of all ranks'
  /// estimates. So each exchanged sum must be that of the values that left, and of gradients, which change little from
  /// step to step.
  bool estimates = false;
  bool owns_momentum = false;  ///< momentum lives here: the optimizer applies none to the exchanged gradient
  /// The rule for P' workers instead of P. kReshard: rank r adds up ranks r, r + P', ...; those from P on are empty.
  /// All of them take the shared state.
  ResizeRule resize = {};
  /// Makes a memory on `device`. `momentum` is the optimizer's coefficient and `nesterov` its form, for memories that
  /// own the momentum.
  std::function<std::unique_ptr<Memory>(const Settings&, std::size_t numel, float momentum, bool nesterov,
                                        const Device& device)>
      make;
};

}  // namespace dragonn::compress
