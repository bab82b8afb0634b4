// SPDX-License-Identifier: MIT
/// Optimizer: turns exchanged gradients into parameter updates, slice by slice of the arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/archive.h"
#include "core/parameter.h"
#include "core/registry.h"
#include "core/sparse_vector.h"

namespace dragonn::optim {

/// A range of the arena that is updated with one rule.
struct Slice {
  std::size_t offset = 0;
  std::size_t size = 0;
  /// The memory applied the momentum already: the optimizer adds none to the gradient. Weight decay keeps its own
  /// momentum buffer (docs/algorithms, section 1.3).
  bool momentum_applied = false;
  /// The gradient contains the learning rate already (lr-folded accumulator).
  bool learning_rate_applied = false;
};

/// State of n floats per buffer for the whole arena. Every step: begin_step, then one update per slice; slices cover
/// every parameter once.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// `step` counts from 0.
  virtual void begin_step(double learning_rate, std::uint64_t step) = 0;
  /// x <- x - Opt(scale * gradient) on the slice. `gradient` is [slice.size].
  virtual void update(const Slice& slice, View<const float> gradient, float scale) = 0;
  /// The same with a gradient that is zero off `gradient`'s entries. Touches only those where the algebra allows
  /// (needs_dense() is false); otherwise sweeps the slice.
  virtual void update(const Slice& slice, const SparseVector& gradient, float scale) = 0;
  /// Whether coordinates with a zero gradient move on this slice.
  virtual bool needs_dense(const Slice& slice) const = 0;

  virtual void save(Archive& archive, const std::string& prefix) const = 0;
  virtual void load(const Archive& archive, const std::string& prefix) = 0;
};

struct OptimizerEntry : RegistryEntry {
  static constexpr const char* kKind = "optimizer";
  std::size_t floats_per_parameter = 0;  ///< state
  bool has_momentum = false;             ///< settings `momentum` and `nesterov` exist: usable with momentum correction
  bool allows_folded = false;            ///< the lr-folded accumulator is defined for it (plain SGD)
  std::function<std::unique_ptr<Optimizer>(const Settings&, ParameterArena&)> make;
};

}  // namespace dragonn::optim
