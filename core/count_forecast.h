// SPDX-License-Identifier: MIT
/// CountForecast: how many entries a method selects, or the sum of an exchange has, on gradients of training.
#pragma once

#include <cstdint>

namespace dragonn {

/// A range of counts in shares of a target: the mean over ten steps lies between `low` and `high`.
struct CountRange {
  double low = 1;
  double expected = 1;
  double high = 1;

  bool is_exact() const { return low == high; }
};

/// The ranges of a run. They are measured, not proved: an entry says on which gradients.
struct CountForecast {
  CountRange settled = {};
  CountRange first = {};          ///< of the first steps of a run; unused if there are none
  std::uint64_t first_steps = 0;  ///< steps until the counts have settled

  const CountRange& range(bool in_first_steps) const { return in_first_steps && first_steps > 0 ? first : settled; }
};

}  // namespace dragonn
