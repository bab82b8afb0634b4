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
/// Hello::size of a donor that brings a process the state of the run; Hello::rank is the donor's id.
inline constexpr int kDonorSize = -1;
/// Both ends send a beat so many times within the timeout.
inline constexpr int kBeatsPerTimeout = 5;

/// The residual of a member at a place of the run: what its gradients are that it has not sent.
struct ResidualMass {
  std::uint64_t place = 0;
  double sum = 0;
  double l1 = 0;  ///< the sum of the magnitudes

  bool operator==(const ResidualMass&) const = default;
};

/// A member that is gone, and its residual as far as the coordinator has heard of it.
struct Loss {
  int member = 0;
  std::optional<ResidualMass> mass = {};

  bool operator==(const Loss&) const = default;
};

/// A line of a member: "join PORT CONFIG"; "return PORT CONFIG GENERATION", to a coordinator that was started again, of
/// one that was told of this generation last; "beat" or "beat PLACE SUM L1" of its residual, "leave PLACE", "report
/// GENERATION PLACE WHY", "finish PLACE"; of one that fetches the state, "ready" and "again DONOR".
struct MemberLine {
  enum class Kind { kJoin, kReturn, kBeat, kLeave, kReport, kFinish, kReady, kAgain };
  Kind kind = Kind::kBeat;
  std::uint64_t generation = 0;
  std::uint64_t place = 0;  ///< of "join" and "return": the port at which the member accepts the others; of "again":
                            ///< the donor
  std::string why = {};
  std::uint64_t config = 0;               ///< of "join" and "return": a hash of the settings that all members share
  std::optional<ResidualMass> mass = {};  ///< of a beat

  std::string text() const;
  /// Returns nothing for any other line.
  static std::optional<MemberLine> parse(const std::string& line);
  bool operator==(const MemberLine&) const = default;
};

/// A line of the coordinator: "beat"; "bye", the answer to "finish"; "stop"; "yield GENERATION WHY"; "end GENERATION
/// WHY"; "drop WHY"; "form GENERATION PLACE FIRST STOPS RUN YOUR-ID LOST ID@ADDRESS,ID@ADDRESS,... WHY", where LOST is
/// "-" or "ID:PLACE:SUM:L1,ID,..." of the members that are gone since the generation before; "fetch RUN YOUR-ID"; "give
/// RUN ID@ADDRESS", of the taker.
struct CoordinatorLine {
  enum class Kind { kBeat, kBye, kStop, kYield, kEnd, kDrop, kForm, kFetch, kGive };
  Kind kind = Kind::kBeat;
  GenerationPlan plan = {};
  std::uint64_t run = 0;  ///< Rendezvous::run of the generation, or of the taker's stream
  int member = 0;         ///< the id of the receiver, which may be another one than it asked for; the taker's
  std::vector<Loss> lost = {};
  std::vector<Address> doors = {};  ///< where the members of a generation accept each other, by rank
  std::string why = {};

  std::string text() const;
  static std::optional<CoordinatorLine> parse(const std::string& line);
  bool operator==(const CoordinatorLine&) const = default;
};

/// The note of a coordinator in its journal. In the file it is a line "journal OWNER TOKEN NEXT-ID CONFIG NUMBER PLACE
/// FIRST STOPS REACHED LOST ID:SINCE,ID:SINCE,... WHY".
struct JournalEntry {
  std::uint64_t owner = 0;  ///< a number of the coordinator that has written it
  std::uint64_t token = 0;  ///< of the run: the numbers of its connections follow from it
  int next_id = 0;          ///< that nobody has had
  std::uint64_t config = 0;
  LastGeneration last = {};
  std::vector<Loss> lost = {};  ///< between the generation before and the last one

  std::string text() const;
  static std::optional<JournalEntry> parse(const std::string& line);
  bool operator==(const JournalEntry&) const = default;
};

}  // namespace dragonn::comm
