// SPDX-License-Identifier: MIT
/// MembershipRecord: the lines of membership.jsonl, which say who has trained in an elastic run, and from where on.
/// docs/formats.md specifies the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "comm/elastic/membership.h"
#include "comm/elastic/protocol.h"

namespace dragonn::trainer {

/// A member that joined, and who gave it the state while all trained: as it had it at this place.
struct StreamRecord {
  int member = 0;
  int donor = 0;
  std::uint64_t place = 0;
  std::uint64_t rest_bytes = 0;  ///< that it got when it joined, while all waited
};

/// A member that is gone, and the part of its residual that another one has taken over; none without a copy.
struct LossRecord {
  comm::Loss loss;
  std::optional<double> restored_sum = {};
};

/// The beginning of a generation.
struct MembershipRecord {
  comm::GenerationPlan plan;
  std::uint64_t step = 0;        ///< steps done
  std::vector<int> before = {};  ///< the members of the generation before
  std::string why = {};          ///< that one ended
  std::vector<LossRecord> lost = {};
  std::vector<StreamRecord> streams = {};
  std::string resumed = {};  ///< the checkpoint from which the run goes on; empty: none
  std::string parameters_hash = {};
};

/// Appends a line. @throws SystemError.
void append_membership(const std::filesystem::path& file, const MembershipRecord& record);

/// Reads the generations that began, oldest first: a generation in which nobody committed its beginning is left out.
/// @throws MissingFileError; DataError naming file and line.
std::vector<MembershipRecord> read_membership(const std::filesystem::path& file);

}  // namespace dragonn::trainer
