// SPDX-License-Identifier: MIT
/// StateListener: whoever takes a copy of a rank's state while that rank trains.
#pragma once

#include <cstdint>

#include "trainer/run/left_state.h"
#include "trainer/update/logged_update.h"

namespace dragonn::trainer {

/// Is told by the thread that trains, in front of each meeting of the ranks and behind each update of the parameters
/// that they share.
class StateListener {
 public:
  virtual ~StateListener() = default;
  /// Returns whether it takes a copy of the state at this place (Commits::place).
  virtual bool wants_copy(std::uint64_t place) = 0;
  /// @param copy what a rank that joins takes over.
  virtual void take_copy(std::uint64_t place, const LeftState& copy) = 0;
  virtual void take_update(const LoggedUpdate& update) = 0;
  /// Returns whether it wants to know the sum of this rank's residual, and that of its magnitudes.
  virtual bool wants_mass() const { return false; }
  virtual void take_mass(std::uint64_t /*place*/, double /*sum*/, double /*l1*/) {}
};

}  // namespace dragonn::trainer
