// SPDX-License-Identifier: MIT
/// Candidates: the settings among which a plan chooses.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/toml_config.h"
#include "trainer/planner/evidence.h"
#include "trainer/planner/virtual_trial.h"

namespace dragonn::trainer {

/// A config as read, from which others are made that differ in some settings.
class ConfigVariants {
 public:
  /// @param raw a whole config, with the user's overrides (read_raw_config).
  explicit ConfigVariants(RawConfig raw) : raw_(std::move(raw)) {}

  /// Returns the config with these settings ("key=value", the last one of a key wins). Those that choose update.scheme
  /// leave out what the config says of its own scheme. @throws ConfigError if the parts do not fit together.
  RunSpec with(std::span<const std::string> settings) const;

  /// Returns the settings without which the config would be another one, in their order.
  std::vector<std::string> needed(std::span<const std::string> settings) const;

  /// Returns whether such settings given as overrides make the same config: not if the config has keys of another
  /// update scheme, which an override does not remove.
  bool can_override(std::span<const std::string> settings) const;

 private:
  RawConfig raw_;
};

/// The ground on which a candidate's convergence rests.
enum class Convergence { kDense, kMeasured, kUnknown };

struct Candidate {
  std::vector<std::string> settings = {};  ///< on top of the config
  RunSpec config = {};
  const Evidence* evidence = nullptr;  ///< of Convergence::kMeasured
  Convergence convergence = Convergence::kUnknown;
  /// Candidates of one family differ in settings that change no result but by rounding.
  std::string family = {};
  bool is_own = false;                    ///< the config as it is
  double predicted_seconds = 0;           ///< of a step, by the formulas
  std::optional<TrialResult> trial = {};  ///< the last one

  /// Returns the best known time of a step: the trial's, or the predicted one.
  double seconds() const { return trial ? trial->seconds() : predicted_seconds; }
};

/// The candidates to be listed.
struct CandidateRules {
  double most_worse_percent = 3;  ///< measured results that lie further behind dense are left out
  bool unmeasured = false;        ///< also list settings whose convergence was never measured
  std::size_t most = 400;         ///< the longest list; the last families are left out
};

/// The settings of one family, and what is known of their convergence.
struct Family {
  std::string name;                   ///< "topk 0.01, int8", "dense"
  std::vector<std::string> settings;  ///< without those that change no result
  const Evidence* evidence = nullptr;
  Convergence convergence = Convergence::kUnknown;
  bool is_own = false;  ///< the config as it is learns the same
};

/// Returns the families that the rules allow: dense, those of `table` that speak for the run, and with
/// rules.unmeasured further methods, densities, codes and numbers of local steps. The config's own is not among them,
/// unless it is one of these. @param parameters of the model.
std::vector<Family> families(const ConfigVariants& variants, std::size_t parameters, std::span<const Evidence> table,
                             const CandidateRules& rules);

/// Returns the candidates of the families, and the config's own first, whatever is known of its convergence. Each has
/// all combinations of overlap, bucket sizes of dense sums, codes of indices without loss, algorithms of sums, and,
/// where nodes have several workers, levels of the exchange; but for algorithms if no bucket is summed densely, and for
/// an overlap that is not possible. @param arena of the model, memory not needed.
std::vector<Candidate> list_candidates(const ConfigVariants& variants, const ParameterArena& arena,
                                       std::span<const Evidence> table, const CandidateRules& rules);

}  // namespace dragonn::trainer
