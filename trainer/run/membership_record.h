// SPDX-License-Identifier: MIT
/// MembershipRecord: the lines of membership.jsonl, which say who has trained in an elastic run, and from where on.
/// docs/formats.md specifies the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "comm/elastic/membership.h"

namespace dragonn::trainer {

/// The beginning of a generation.
struct MembershipRecord {
  comm::GenerationPlan plan;
  std::uint64_t step = 0;        ///< steps done
  std::vector<int> before = {};  ///< the members of the generation before
  std::string why = {};          ///< that one ended
  std::string resumed = {};      ///< the checkpoint from which the run goes on; empty: none
  std::string parameters_hash = {};
};

/// Appends a line. @throws SystemError.
void append_membership(const std::filesystem::path& file, const MembershipRecord& record);

/// Reads the generations that began, oldest first: a generation in which nobody committed its beginning is left out.
/// @throws MissingFileError; DataError naming file and line.
std::vector<MembershipRecord> read_membership(const std::filesystem::path& file);

}  // namespace dragonn::trainer
