// SPDX-License-Identifier: MIT
/// Planner: says what to set for a config on a network.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/planner/bounds.h"
#include "trainer/planner/candidates.h"
#include "trainer/planner/search.h"
#include "trainer/planner/step_time.h"

namespace dragonn::trainer {

struct PlanRequest {
  CandidateRules candidates = {};
  SearchRules search = {};
  std::optional<double> step_seconds = {};  ///< of forward and backward; empty: network.step_ms, or measured
  std::optional<double> memory_bytes = {};  ///< that a worker may take
  std::size_t proposals = 3;                ///< the longest list of them, of different families
};

/// Settings, and what they give.
struct Proposal {
  Candidate candidate = {};
  std::vector<std::string> settings = {};  ///< those that change the config
  bool can_override = true;                ///< they can be given as --set (ConfigVariants::can_override)
  double seconds = 0;                      ///< of a step
  double low = 0, high = 0;                ///< of the rounds that were tried, and of the measured computing
  std::size_t memory_bytes = 0;            ///< of a worker (RunPlan::memory_total)
};

struct Plan {
  std::string network = {};  ///< in words
  int workers = 1;
  StepTime step = {};
  Proposal own = {};                     ///< the config as it is
  std::vector<Proposal> proposals = {};  ///< the fastest first; empty if none is allowed that fits
  std::vector<Bound> bounds = {};        ///< of the first proposal, or of the config as it is
  SearchReport search = {};
  std::vector<Candidate> candidates = {};  ///< all, the fastest first
  double most_worse_percent = 0;           ///< as asked for
  bool unmeasured = false;                 ///< likewise
  /// Families that speak for the model are none: nothing but dense was measured.
  bool has_evidence = true;
};

/// Plans: measures a step unless its time is known, lists candidates, and searches them on the virtual cluster of the
/// config's network, with stand-ins in place of model and data (trainer/planner/stand_in.h). Takes the time of the
/// search, and the memory of all workers but for activations.
/// @throws ConfigError: no network, one worker, workers that leave out steps, backend nccl; DataError of the data.
Plan make_plan(const ConfigVariants& variants, std::span<const Evidence> table, const PlanRequest& request);

/// Returns the plan as text: network, step, the config as it is, proposals with their settings.
std::string describe(const Plan& plan);
/// Returns it as JSON (docs/formats.md). @param all_candidates with the times of all, too.
std::string to_json(const Plan& plan, bool all_candidates);
/// Returns a config with a proposal's settings as a file that dragonn-train takes, which says where it is from.
/// @param variants of the config without what the plan assumes of the network.
std::string to_toml(const Plan& plan, const Proposal& proposal, const ConfigVariants& variants);

}  // namespace dragonn::trainer
