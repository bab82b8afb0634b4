// SPDX-License-Identifier: MIT
/// Search: finds the candidates whose steps are fastest on a virtual cluster.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "trainer/planner/candidates.h"
#include "trainer/planner/virtual_trial.h"

namespace dragonn::trainer {

/// Tries a candidate, and returns its times. @throws ConfigError for parts that do not fit together only in a run.
using TryCandidate = std::function<TrialResult(const Candidate&, const TrialLength&)>;

struct SearchRules {
  double seconds = 60;   ///< of wall time after which no further candidate is tried; it does not end the finals
  bool try_all = false;  ///< try every candidate, whatever that takes
  /// A candidate is not tried whose predicted time, corrected by trials of its kind, is longer than the best one's by
  /// more than this factor.
  double hopeless = 1.15;
  std::size_t finalists = 8;  ///< of the finals: tried again, longer
};

/// The account of a search.
struct SearchReport {
  std::size_t listed = 0;   ///< candidates
  std::size_t tried = 0;    ///< of them
  std::size_t refused = 0;  ///< of them, as their parts do not fit together
  double seconds = 0;       ///< wall time
  bool is_complete = true;  ///< the time sufficed
};

/// Sorts candidates by the time of a step, the fastest first; those that were not tried come last.
///
/// All have a predicted time. The best predicted of each kind (a family, with one level or with two) is tried first,
/// unless it is far behind the best. The ratio of a trial to its prediction then corrects the predictions of its kind,
/// and the candidate with the least corrected time is tried next, until all that are left are hopeless. The best are
/// tried again, longer. Of times within 1 % the result that lies less behind dense comes first, and of these the one
/// with fewer settings.
SearchReport search(std::vector<Candidate>& candidates, const TryCandidate& try_candidate, const SearchRules& rules);

/// Returns the length of a short trial, and of one that counts.
TrialLength short_trial(const RunSpec& config);
TrialLength long_trial(const RunSpec& config);

}  // namespace dragonn::trainer
