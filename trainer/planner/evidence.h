// SPDX-License-Identifier: MIT
/// Evidence: where the convergence of a method was measured, and how far from dense it ended.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace dragonn::trainer {

/// A measured result: a row of trainer/planner/evidence.def, which says what the columns are.
struct Evidence {
  std::string model;
  std::size_t parameters = 0;
  std::string optimizer;
  int workers = 0, most_workers = 0;
  double worse_percent = 0;  ///< than dense; below 0 better
  int seeds = 1;
  std::vector<std::string> settings;  ///< "key=value"
  std::string measured;
  std::string page;  ///< below docs/results/
};

/// The run that evidence is wanted for.
struct EvidenceQuestion {
  std::string model;
  std::size_t parameters = 0;
  std::string optimizer;
  int workers = 1;
};

/// Returns all rows, in the order of the table.
const std::vector<Evidence>& all_evidence();

/// Returns whether a measured result speaks for a run: the same model, at most four times as large or as small, the
/// same optimizer, and no more workers than the row's.
bool speaks_for(const Evidence& evidence, const EvidenceQuestion& question);

/// Returns the rows of a table that speak for a run: of those with the same settings the one with the fewest workers
/// that suffice, and of the same workers the one whose model is nearest in size.
std::vector<const Evidence*> evidence_for(const EvidenceQuestion& question, std::span<const Evidence> table);

/// Returns the settings that undo what a config says about the exchange and the update scheme, so that a row's settings
/// say all of it.
const std::vector<std::string>& evidence_resets();

/// Returns the keys by which two configs of one model and data converge differently. The algorithms of sums, codes
/// without loss and the levels of an exchange are none.
std::vector<std::string> convergence_changes(const Config& a, const Config& b);

}  // namespace dragonn::trainer
