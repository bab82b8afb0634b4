// SPDX-License-Identifier: MIT
/// Component traits: what the entries of methods declare about saved state, selections and counts of entries.
#pragma once

#include <cstdint>
#include <string>

namespace dragonn {

/// The declared fate of a component's saved state when a run resumes with another number of workers.
enum class OnResize {
  kStateless,  ///< there is no state. A component that saves some and says so nevertheless is refused
  kReshard,    ///< the new ranks take the state over, as the interface of the component says
  kRestart,    ///< the new ranks begin as a fresh run does
  kRefuse,     ///< the run does not resume
};

/// The rule for a component's state when a checkpoint of P workers resumes on P' of them. Every component that saves
/// state declares one.
struct ResizeRule {
  OnResize kind = OnResize::kStateless;
  /// The rule in words that follow the component's name in a log line: "restarts: its regions are one per worker".
  std::string how = {};
};

/// A sparsifier's promises about its selections. A collective decides by them whether the two fit (docs/algorithms.md,
/// section 5).
struct SelectionTraits {
  bool fixed_size = false;      ///< every rank selects exactly min(k, n) entries, always
  bool at_most_k = false;       ///< no rank ever selects more than k entries
  bool shared_indices = false;  ///< all ranks select the same indices, drawn from a shared seed
  bool partitioned = false;     ///< ranks select in disjoint ranges
  bool leader_only = false;     ///< only the leader's selection counts
  bool rescaled = false;        ///< values differ from acc at the selected indices
  bool blind = false;           ///< indices are chosen without reading the values

  /// Returns whether a message of k slots holds any selection, so that its size need not be sent.
  bool fits_k_slots() const { return fixed_size || at_most_k; }
};

/// The mean over ten steps lies between `low` and `high`; all three are `kDefault` unless a forecast is made.
template <int kDefault>
struct ForecastRange {
  double low = kDefault;
  double expected = kDefault;
  double high = kDefault;

  bool is_exact() const { return low == high; }
};

/// The ranges of a run. They are measured, not proved: an entry says on which gradients.
template <class Range>
struct Forecast {
  Range settled = {};
  Range first = {};               ///< of the first steps of a run; unused if there are none
  std::uint64_t first_steps = 0;  ///< steps until the run has settled

  const Range& range(bool in_first_steps) const { return in_first_steps && first_steps > 0 ? first : settled; }
};

/// Counts of entries, in shares of a target.
using CountRange = ForecastRange<1>;
using CountForecast = Forecast<CountRange>;
/// Bytes that a worker sends in a step: the payload, mean over the workers.
using ByteRange = ForecastRange<0>;
using ByteForecast = Forecast<ByteRange>;

}  // namespace dragonn
