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
#include "kernels/gradient/optimizer_update.h"

namespace dragonn::optim {

/// A range of the arena that is updated by one rule.
struct Slice {
  std::size_t offset = 0;
  std::size_t size = 0;
  /// The memory has applied the momentum already, so the optimizer adds none to the gradient. Weight decay keeps its
  /// own momentum buffer (docs/algorithms.md, section 1.3).
  bool momentum_applied = false;
  /// The gradient contains the learning rate already (lr-folded accumulator).
  bool learning_rate_applied = false;
};

/// An array of an optimizer's state.
struct StateArray {
  std::string name;
  View<float> values;
};

/// An optimizer with a state of n floats per buffer for the whole arena. Every step calls begin_step, then update once
/// per slice; the slices cover every parameter once, in the order of the arena. A slice may end within a parameter.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Begins a step; `step` counts from 0.
  virtual void begin_step(double learning_rate, std::uint64_t step) = 0;
  /// Updates a slice: x <- x - Opt(scale * gradient). The gradient is [slice.size], or zero except at its entries; then
  /// only those are touched if the algebra allows (needs_dense() is false).
  virtual void update(const Slice& slice, const kernels::GradientView& gradient, float scale) = 0;
  void update(const Slice& slice, View<const float> gradient, float scale) {
    DRAGONN_CHECK(gradient.size() == slice.size, "a gradient of {} elements for a slice of {}", gradient.size(),
                  slice.size);
    update(slice, kernels::GradientView(gradient), scale);
  }
  void update(const Slice& slice, const SparseVector& gradient, float scale) {
    update(slice, kernels::GradientView(gradient, slice.size), scale);
  }
  /// Returns whether coordinates with a zero gradient move on this slice.
  virtual bool needs_dense(const Slice& slice) const = 0;

  /// Returns the arrays of the state, for who saves them, loads them or gives them away; valid as long as this object.
  virtual std::vector<StateArray> state() = 0;
  void save(Archive& archive, const std::string& prefix);
  /// @throws DataError if an array is absent, or has another size.
  void load(const Archive& archive, const std::string& prefix);

 protected:
  /// Forgets the step that was under way when a state is loaded.
  virtual void abandon_step() {}
};

struct OptimizerEntry : RegistryEntry {
  static constexpr const char* kKind = "optimizer";
  std::size_t floats_per_parameter = 0;  ///< floats of state, at most
  bool has_momentum = false;             ///< settings `momentum` and `nesterov` exist: usable with momentum correction
  bool allows_folded = false;            ///< the lr-folded accumulator is defined for it (plain SGD)
  std::function<std::unique_ptr<Optimizer>(const Settings&, ParameterArena&)> make;
};

}  // namespace dragonn::optim
