// SPDX-License-Identifier: MIT
/// StageSearch: adapts the number of SIDCo's successive fits to the counts that they gave.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/archive.h"
#include "core/choice.h"

namespace dragonn::compress {

enum class StageAdaptation {
  kHillclimb,  ///< turns around if that made things worse
  kPaper,      ///< one less above the band, one more below it (SIDCo, algorithm 1)
  kFixed,      ///< always the initial number
};
constexpr auto choices(StageAdaptation) {
  return std::array{"hillclimb", "paper", "fixed"};
}

struct StageRules {
  StageAdaptation adaptation = StageAdaptation::kHillclimb;
  std::int64_t initial = 1;
  std::int64_t window = 5;      ///< selections between decisions
  double tolerance_high = 0.2;  ///< the band of the mean of selected / k is [1 - low, 1 + high]
  double tolerance_low = 0.2;
};

/// Returns the most stages that a density allows, ceil(ln(density) / ln(1/2)): with more, each would keep over half.
std::int64_t max_stages(double density);

/// Searches the number of stages M of one bucket on one rank. Local: ranks may differ.
///
/// Adding stages raises the count for light tails and lowers it for heavy ones, so `hillclimb` keeps a direction, the
/// sign of M's effect. It turns around when a step made the ratio worse, and when M reaches a bound. An input that no M
/// fits would make it turn back and forth: after two turns it holds the best M seen for 20 windows, then searches anew
/// with the other direction first. A window in the band ends a search too.
class StageSearch {
 public:
  explicit StageSearch(const StageRules& rules) : rules_(rules), stages_(rules.initial) {}

  /// Returns M, which a density bounds unless it is fixed.
  std::int64_t stages(double density) const;
  /// Counts a selection of `ratio` = selected / k at `density`. M may change every `window` calls.
  void observe(double ratio, double density);

  void save(Archive& archive, const std::string& prefix) const;
  void load(const Archive& archive, const std::string& prefix);

 private:
  bool in_band(double mean) const;
  void climb(double mean, std::int64_t max);
  void forget_errors();
  /// Calls visit(name, member) for all that outlives a step.
  template <class Self, class Visit>
  static void for_members(Self& self, const Visit& visit);

  StageRules rules_;
  std::int64_t stages_;
  double sum_ = 0;          ///< sum of the ratios of the window
  std::int64_t count_ = 0;  ///< number of these ratios
  // The state of hillclimb.
  std::int64_t direction_ = 1;
  std::int64_t first_direction_ = 1;  ///< first direction of this search
  bool moved_ = false;                ///< M changed after the last window out of the band
  double last_error_ = 0;             ///< |mean - 1| of that window
  std::int64_t turns_ = 0;
  std::int64_t best_stages_ = 0;  ///< of this search; 0: none yet
  double best_error_ = 0;
  std::int64_t windows_held_ = 0;  ///< 0: searching
};

}  // namespace dragonn::compress
