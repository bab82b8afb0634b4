// SPDX-License-Identifier: MIT
/// Schedule: the learning rate as a function of the step and, for some, of the evaluations so far.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/archive.h"
#include "core/registry.h"

namespace dragonn::optim {

/// The length of a run and its base rate. Equal on all ranks.
struct ScheduleContext {
  double base_learning_rate = 0.1;    ///< optimizer.learning_rate
  std::uint64_t steps_per_epoch = 1;  ///< at least 1
  std::uint64_t total_steps = 1;      ///< length of the whole run, where decays end
};

/// A learning-rate schedule. A resumed run loads the saved state, asks for its step and gets the uninterrupted run's
/// rate.
class Schedule {
 public:
  virtual ~Schedule() = default;
  /// Returns the rate of `step`, counted from 0. Steps beyond the end keep the last rate.
  virtual double learning_rate(std::uint64_t step) const = 0;
  /// Returns the share of the base rate that the decay has left at `step`; a warm-up does not count.
  virtual double decay(std::uint64_t step) const = 0;
  /// Takes the loss of an evaluation, the same on all ranks. Most schedules ignore it.
  virtual void observe(double /*loss*/) {}
  /// Saves state that outlives a step below `prefix`. Most schedules have none.
  virtual void save(Archive& /*archive*/, const std::string& /*prefix*/) const {}
  virtual void load(const Archive& /*archive*/, const std::string& /*prefix*/) {}
};

struct ScheduleEntry : RegistryEntry {
  static constexpr const char* kKind = "schedule";
  /// Makes a schedule. @throws ConfigError if the settings do not fit the run's length.
  std::function<std::unique_ptr<Schedule>(const Settings&, const ScheduleContext&)> make;
};

}  // namespace dragonn::optim
