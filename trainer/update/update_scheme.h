// SPDX-License-Identifier: MIT
/// UpdateScheme: how gradients become updates: what the workers exchange in a step, and what each applies.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/archive.h"
#include "core/component_traits.h"
#include "core/registry.h"
#include "core/view.h"

namespace dragonn::trainer {

struct Generation;  // trainer/run/generation.h

/// The values of one step.
struct StepValues {
  double learning_rate = 0;
  double density = 1;            ///< target of an exchange, in (0, 1]
  View<float> accumulated = {};  ///< as ExchangeStep::accumulated
  bool is_last = false;          ///< of the run: after it the ranks are synchronized
};

/// The outcome of one step, the same on every rank.
struct StepOutcome {
  bool is_exchanged = true;  ///< gradients were exchanged; the metrics of other steps have neither counts nor densities
  bool stop = false;         ///< a signal has reached some rank
};

/// The update rule of one rank. It has its own state; network, optimizer and exchange are the generation's.
class UpdateScheme {
 public:
  virtual ~UpdateScheme() = default;

  /// Collective. Trains on the next batch. @throws comm::CollectiveError if a gradient is not finite and such steps are
  /// not skipped.
  virtual StepOutcome step(Generation& generation, const StepValues& values) = 0;
  /// Returns whether all ranks hold the same parameters and the same optimizer after the steps so far. Evaluations,
  /// comparisons of replicas, checkpoints and stops are left out where they do not. After a run's last step
  /// (StepValues::is_last) they do.
  virtual bool is_synchronized() const = 0;
  /// Saves this rank's state between synchronized steps below `prefix`. Most schemes have none.
  virtual void save(Archive& /*rank*/, const std::string& /*prefix*/) const {}
  virtual void load(const Archive& /*rank*/, const std::string& /*prefix*/) {}
};

struct UpdateSchemeEntry : RegistryEntry {
  static constexpr const char* kKind = "update scheme";
  /// Reshard: a rank loads the state of one rank of the other number of workers.
  ResizeRule resize = {};
  /// A step exchanges the gradient that it computes, with Generation::overlapped as the gate. Otherwise
  /// compression.overlap has no effect.
  bool overlaps = false;
  std::function<std::unique_ptr<UpdateScheme>(const Settings&)> make;
};

}  // namespace dragonn::trainer
