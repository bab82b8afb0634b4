// SPDX-License-Identifier: MIT
/// RoundLength: how many steps a rank makes in a round, by its clock or by the record of an earlier run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/archive.h"
#include "core/settings.h"

namespace dragonn::trainer {

/// The steps that each rank made in the rounds of a run, from its metrics.jsonl (docs/formats.md).
class InnerStepsRecord {
 public:
  /// @throws DataError naming the line that is no record; ConfigError, SystemError if the file cannot be read.
  explicit InnerStepsRecord(const std::filesystem::path& metrics);

  /// Returns the steps by rank in the round that was planned to end after step `end`; null if it is not there.
  const std::vector<std::uint64_t>* round(std::uint64_t end) const;
  bool empty() const { return rounds_.empty(); }

 private:
  std::map<std::uint64_t, std::vector<std::uint64_t>> rounds_;  // by end
};

/// The length of one rank's rounds. A round has a planned number of steps, `inner_steps`. With `inner_seconds` a rank
/// leaves out those at the end for which its clock has no time; with `inner_steps_from` it makes as many as the record
/// says. It makes at least one. Local unless said otherwise.
class RoundLength {
 public:
  /// @param settings of the scheme `local`.  @throws as InnerStepsRecord.
  explicit RoundLength(const Settings& settings);

  /// Returns whether ranks may make different numbers of steps.
  bool varies() const { return seconds_ > 0 || record_; }
  /// Prepares a start after step `done` of `total`. @param earlier metrics.jsonl of a run that goes on: rounds that it
  /// had made before are made again as they were. Empty: none.
  /// @throws ConfigError if `inner_steps_from` lacks a round to come, and there are no seconds either.
  void begin(std::uint64_t done, std::uint64_t total, int ranks, const std::filesystem::path& earlier);
  /// Returns whether the next step is the rank's last in the round that is planned to end after step `end`.
  bool is_cut(std::uint64_t end, int rank, int ranks) const;
  /// Counts a step that the rank has made.
  void add_step(double seconds);
  /// Collective, at a round's end. Returns the factor of this rank's change, m P / sum of m for the ranks' steps m,
  /// with which the mean over ranks weighs each by its steps. It is 1 where all made as many. 8 (P-1) bytes.
  float weight(comm::Communicator& communicator);
  /// Ends the round. Returns the steps that each rank made, as weight() found: valid until the next call of that.
  std::span<const std::uint64_t> end();

  /// Saves and restores the part of a round that is done.
  void save(Archive& rank, const std::string& prefix) const;
  void load(const Archive& rank, const std::string& prefix);

 private:
  /// Returns the record of a round; null where the clock decides.
  const std::vector<std::uint64_t>* recorded(std::uint64_t end, int ranks) const;

  std::uint64_t planned_;  // steps
  double seconds_;         // 0: the clock decides nothing
  std::string file_;       // of the record, as given
  std::optional<InnerStepsRecord> record_;
  std::uint64_t made_ = 0;             // steps of the round
  double elapsed_ = 0;                 // seconds of these
  double last_ = 0;                    // seconds of the last step, of this round or the one before
  std::vector<std::uint64_t> of_all_;  // by rank
};

}  // namespace dragonn::trainer
