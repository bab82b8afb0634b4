// SPDX-License-Identifier: MIT
/// Memory: error feedback. Holds what was not sent, adds it to the next gradient, and settles after the exchange.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "codec/value_codec.h"
#include "core/archive.h"
#include "core/registry.h"
#include "core/sparse_vector.h"
#include "kernels/gradient/gradient_pass.h"

namespace dragonn::compress {

/// What left this rank in an exchange, and what came back.
struct Settlement {
  View<const std::uint32_t> contributed = {};  ///< entries of acc that left (ignored if contributed_all)
  bool contributed_all = false;                ///< a dense exchange: everything left
  /// Of those, the entries whose momentum stops too (momentum masking). Absent: all of them.
  std::optional<View<const std::uint32_t>> masked = {};
  const SparseVector* returned = nullptr;  ///< mass handed back, added after the zeroing; may be null
  /// Where all of acc left in a code: what left is what it decodes to, and what `contributed` says does not count.
  codec::Code code = {};
};

/// residual <- residual (which is acc) less what left, plus what came back. Touches only those entries, or all of them
/// where acc was quantized.
void settle_residual(const Settlement& settlement, View<float> residual);

/// One object per bucket of n elements. compensate, then settle, once per step.
class Memory {
 public:
  virtual ~Memory() = default;

  /// acc = memory (+) scale * gradient, running the pass that the sparsifier asked for in the same sweep.
  /// `scale` is 1, a clip factor, or with the lr-folded accumulator also the learning rate.
  /// The result stays valid until the next call. The gradient is not changed.
  virtual const kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                                float scale) = 0;
  /// acc of the last compensate, [n]; valid until settle().
  virtual View<const float> accumulated() const = 0;
  /// The residual <- acc less what left, plus the returned mass (see settle_residual).
  virtual void settle(const Settlement& settlement) = 0;

  /// Euclidean norm of the residual, in double. O(n).
  virtual double residual_norm() const = 0;
  /// The residual after settle(), [n]; empty if this memory keeps none.
  virtual View<const float> residual() const = 0;

  virtual void save(Archive& archive, const std::string& prefix) const = 0;
  virtual void load(const Archive& archive, const std::string& prefix) = 0;
};

struct MemoryEntry : RegistryEntry {
  static constexpr const char* kKind = "memory";
  std::size_t floats_per_element = 0;  ///< state: 0 none, 1 residual, 2 momentum correction
  bool conserves = true;               ///< the invariant of conservation holds
  bool owns_momentum = false;          ///< momentum lives here: the optimizer applies none to what it exchanges
  /// `momentum` is the optimizer's coefficient and `nesterov` its form, for memories that own the momentum. Gradient
  /// and state live on `device`.
  std::function<std::unique_ptr<Memory>(const Settings&, std::size_t numel, float momentum, bool nesterov,
                                        const Device& device)>
      make;
};

}  // namespace dragonn::compress
