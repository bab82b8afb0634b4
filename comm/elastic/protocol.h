// SPDX-License-Identifier: MIT
/// The lines that the members of an elastic run and its coordinator send each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/elastic/membership.h"
#include "comm/tcp/socket.h"

namespace dragonn::comm {

/// Hello::size of a process that wants to become a member; Hello::rank is the id that it asks for.
inline constexpr int kElasticSize = 0;
/// Both ends send a beat so many times within the timeout.
inline constexpr int kBeatsPerTimeout = 5;

/// A line of a member: "join PORT CONFIG", "beat", "leave PLACE", "report GENERATION PLACE WHY", "finish PLACE".
struct MemberLine {
  enum class Kind { kJoin, kBeat, kLeave, kReport, kFinish };
  Kind kind = Kind::kBeat;
  std::uint64_t generation = 0;
  std::uint64_t place = 0;  ///< of a join: the port at which the member accepts the others
  std::string why = {};
  std::uint64_t config = 0;  ///< of a join: a hash of the settings that all members must share

  std::string text() const;
  /// Returns nothing for any other line.
  static std::optional<MemberLine> parse(const std::string& line);
  bool operator==(const MemberLine&) const = default;
};

/// A line of the coordinator: "beat"; "bye", the answer to "finish"; "stop"; "yield GENERATION WHY"; "end GENERATION
/// WHY"; "drop WHY"; "form GENERATION PLACE STOPS RUN YOUR-ID ID@ADDRESS,ID@ADDRESS,... WHY".
struct CoordinatorLine {
  enum class Kind { kBeat, kBye, kStop, kYield, kEnd, kDrop, kForm };
  Kind kind = Kind::kBeat;
  GenerationPlan plan = {};
  std::uint64_t run = 0;            ///< Rendezvous::run of the generation
  int member = 0;                   ///< the id of the receiver, which may be another one than it asked for
  std::vector<Address> doors = {};  ///< where the members of a generation accept each other, by rank
  std::string why = {};

  std::string text() const;
  static std::optional<CoordinatorLine> parse(const std::string& line);
  bool operator==(const CoordinatorLine&) const = default;
};

}  // namespace dragonn::comm
