// SPDX-License-Identifier: MIT
#include "trainer/planner/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "exchange/exchange_plan.h"

namespace dragonn::trainer {
namespace {

/// Times this near to each other are equal: other reasons decide.
constexpr double kEqual = 1.01;
/// The first of a kind is not tried if it is predicted to take so many times as long as the best trial.
constexpr double kFar = 4;
/// Counts settle, and periods repeat, within so many exchanges.
constexpr std::uint64_t kLongestAhead = 32;

/// Returns what shares a correction of predictions.
std::string kind_of(const Candidate& candidate) {
  const bool has_levels = candidate.config.comm.hierarchy == Hierarchy::kNode;
  const bool overlaps = candidate.config.compression.overlap;
  return candidate.family + (has_levels ? "/node" : "") + (overlaps ? "/overlap" : "");
}

std::uint64_t unsettled(const RunSpec& config) {
  return std::min(kLongestAhead, exchange::unsettled_steps(config.rules, static_cast<int>(config.comm.workers)));
}

/// The steps of a delayed exchange, or of fragments on their way, repeat from the second round on.
std::uint64_t least_ahead(const RunSpec& config) {
  const UpdateTraits traits = config.update.traits();
  return traits.delays || traits.overlap_steps > 0 ? 2 : 1;
}

class Trials {
 public:
  Trials(std::vector<Candidate>& candidates, const TryCandidate& try_candidate, const SearchRules& rules)
      : candidates_(candidates), try_(try_candidate), rules_(rules), begin_(wall_clock().now()) {}

  SearchReport run() {
    report_.listed = candidates_.size();
    state_.assign(candidates_.size(), State::kUntried);
    try_candidate(0, short_trial);  // the config as it is
    first_of_each_kind();
    while (const auto next = most_promising()) {
      if (!has_time()) break;
      try_candidate(*next, short_trial);
    }
    try_again();
    report_.seconds = wall_clock().now() - begin_;
    sort();
    return report_;
  }

 private:
  enum class State { kUntried, kTried, kRefused };

  bool has_time() {
    if (rules_.try_all || wall_clock().now() - begin_ < rules_.seconds) return true;
    report_.is_complete = false;
    return false;
  }

  void try_candidate(std::size_t index, TrialLength (*length)(const RunSpec&)) {
    Candidate& candidate = candidates_[index];
    const bool is_first = state_[index] == State::kUntried;
    try {
      candidate.trial = try_(candidate, length(candidate.config));
    } catch (const ConfigError&) {
      state_[index] = State::kRefused;
      ++report_.refused;
      return;
    }
    state_[index] = State::kTried;
    if (!is_first) return;
    ++report_.tried;
    ratios_[kind_of(candidate)] = candidate.trial->seconds() / candidate.predicted_seconds;
    best_ = std::min(best_, candidate.trial->seconds());
  }

  std::vector<std::size_t> by_prediction() const {
    std::vector<std::size_t> order(candidates_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return candidates_[i].predicted_seconds; });
    return order;
  }

  void first_of_each_kind() {
    for (const std::size_t index : by_prediction()) {
      const Candidate& candidate = candidates_[index];
      const bool is_far = !rules_.try_all && candidate.predicted_seconds > kFar * best_;
      if (state_[index] != State::kUntried || ratios_.contains(kind_of(candidate)) || is_far) continue;
      if (!has_time()) return;
      try_candidate(index, short_trial);
    }
  }

  /// Returns the untried candidate with the least corrected time, unless that is hopeless.
  std::optional<std::size_t> most_promising() const {
    std::optional<std::size_t> best;
    double least = rules_.try_all ? std::numeric_limits<double>::infinity() : rules_.hopeless * best_;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (state_[i] != State::kUntried) continue;
      const auto ratio = ratios_.find(kind_of(candidates_[i]));
      if (ratio == ratios_.end() && !rules_.try_all) continue;  // too far
      const double seconds = candidates_[i].predicted_seconds * (ratio == ratios_.end() ? 1 : ratio->second);
      if (seconds >= least) continue;
      best = i;
      least = seconds;
    }
    return best;
  }

  /// Tries the best again, longer: the config as it is, too.
  void try_again() {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (state_[i] == State::kTried) order.push_back(i);
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return candidates_[i].seconds(); });
    if (order.size() > rules_.finalists) order.resize(rules_.finalists);
    for (const std::size_t index : order) try_candidate(index, long_trial);
    if (!std::ranges::count(order, std::size_t{0}) && state_[0] == State::kTried) try_candidate(0, long_trial);
  }

  void sort() {
    std::vector<std::pair<State, Candidate>> all;
    for (std::size_t i = 0; i < candidates_.size(); ++i) all.emplace_back(state_[i], std::move(candidates_[i]));
    std::erase_if(all, [](const auto& entry) { return entry.first == State::kRefused; });
    std::ranges::stable_sort(
        all, {}, [](const auto& entry) { return std::pair(entry.first != State::kTried, entry.second.seconds()); });
    // What is as fast as the first is led by what lies less behind dense, then by fewer settings.
    const auto end = std::ranges::find_if(all, [&](const auto& entry) {
      return entry.first != State::kTried || entry.second.seconds() > kEqual * all.front().second.seconds();
    });
    std::ranges::stable_sort(all.begin(), end, {}, [](const auto& entry) {
      const Candidate& candidate = entry.second;
      const double worse = candidate.evidence == nullptr ? 0 : std::max(0.0, candidate.evidence->worse_percent);
      return std::pair(worse, candidate.settings.size());
    });
    candidates_.clear();
    for (auto& entry : all) candidates_.push_back(std::move(entry.second));
  }

  std::vector<Candidate>& candidates_;
  const TryCandidate& try_;
  SearchRules rules_;
  double begin_;
  std::vector<State> state_;
  std::map<std::string, double> ratios_;  // by kind: a trial's time over its prediction
  double best_ = std::numeric_limits<double>::infinity();
  SearchReport report_;
};

}  // namespace

TrialLength short_trial(const RunSpec& config) {
  if (config.update.steps_locally()) return {.ahead = least_ahead(config), .counted = 1};
  // Before counts settle they may be ten times as high: a reused threshold meets residuals that grow.
  return {.ahead = std::max(least_ahead(config), unsettled(config)), .counted = 2};
}

TrialLength long_trial(const RunSpec& config) {
  TrialLength length = short_trial(config);
  length.counted = config.update.steps_locally() ? 2 : std::max<std::uint64_t>(6, unsettled(config));
  return length;
}

SearchReport search(std::vector<Candidate>& candidates, const TryCandidate& try_candidate, const SearchRules& rules) {
  return Trials(candidates, try_candidate, rules).run();
}

}  // namespace dragonn::trainer
